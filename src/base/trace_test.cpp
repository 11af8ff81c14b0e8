#include "base/trace.h"

#include <gtest/gtest.h>

#include "base/scope.h"

namespace atl {
namespace {

using namespace std::chrono_literals;

Instant at(Duration since) {
  return Instant{} + since;
}

TEST(TraceTest, StepsAddUpToTheTimeThatPassed) {
  Trace trace{at(0us)};
  trace.mark(Step::kRead, at(12us));
  trace.mark(Step::kStore, at(20us));
  trace.mark(Step::kNode, at(50us));
  trace.mark(Step::kStore, at(60us));
  EXPECT_EQ(18us, trace.spent(Step::kStore));
  EXPECT_EQ("read;us=12, node;us=30, store;us=18, total;us=60", trace.render());
}

TEST(TraceTest, AStepThatTookNoTimeIsStillTold) {
  Trace trace{at(5us)};
  trace.mark(Step::kAuth, at(5us));
  EXPECT_TRUE(trace.has(Step::kAuth));
  EXPECT_FALSE(trace.has(Step::kRead));
  EXPECT_EQ("auth;us=0, total;us=0", trace.render());
}

TEST(TraceTest, EveryStepAndOperationHasItsOwnName) {
  for (std::size_t i = 0; i < kSteps; ++i) {
    ASSERT_FALSE(step_name(static_cast<Step>(i)).empty());
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(step_name(static_cast<Step>(i)), step_name(static_cast<Step>(j)));
    }
  }
  EXPECT_EQ("encode", step_name(Step::kEncode));
  EXPECT_EQ("exec", operation_name(Operation::kExec));
}

TEST(TraceTest, TheFirstNameOfARequestStays) {
  Trace trace{at(0us)};
  trace.is(Operation::kCreate);
  trace.is(Operation::kExec);
  EXPECT_EQ(Operation::kCreate, trace.operation());
}

Task<> mark_later(ManualLoop& loop) {
  loop.advance(3us);
  co_await mark(Step::kExit);
  co_return ok();
}

Task<> do_traced_work(ManualLoop& loop) {
  co_await trace_as(Operation::kExec);
  loop.advance(2us);
  co_await mark(Step::kSpawn);
  // Through every way to run a task under a context of its own.
  CO_TRY_DO(co_await with_deadline(1s, mark_later(loop)));
  CO_TRY_DO(co_await shielded(mark_later(loop)));
  Scope scope{co_await current_context()};
  scope.spawn("child", mark_later(loop));
  co_return co_await scope.join();
}

Task<> trace_into(Trace& trace, ManualLoop& loop) {
  const TaskContext& here = co_await current_context();
  TaskContext traced{here.loop, here.cancel, &trace};
  co_return co_await do_traced_work(loop).under(traced);
}

TEST(TraceTest, TasksFindTheTraceOfTheirRequest) {
  ManualLoop loop;
  Trace trace{loop.now()};
  Scope scope{loop};
  scope.spawn("request", trace_into(trace, loop));
  loop.run_ready();
  EXPECT_EQ(0U, scope.running());
  EXPECT_EQ(Operation::kExec, trace.operation());
  EXPECT_EQ(2us, trace.spent(Step::kSpawn));
  EXPECT_EQ(9us, trace.spent(Step::kExit));
}

TEST(TraceTest, WithoutATraceMarksAreNothing) {
  ManualLoop loop;
  Scope scope{loop};
  scope.spawn("work", do_traced_work(loop));
  loop.run_ready();
  EXPECT_EQ(0U, scope.running());
}

}  // namespace
}  // namespace atl
