#include "base/task.h"

#include <gtest/gtest.h>

#include "base/scope.h"

namespace atl {
namespace {

using namespace std::chrono_literals;

Task<int> add(int a, int b) {
  co_return a + b;
}

Task<int> fail_if_negative(int value) {
  if (value < 0) {
    co_return fail(Code::kInvalidArgument, "negative");
  }
  CO_TRY(const int doubled, co_await add(value, value));
  co_return doubled;
}

Task<> store(Task<int> task, std::optional<Result<int>>& out) {
  out.emplace(co_await std::move(task));
  co_return ok();
}

Task<> sleep_then_set(Duration duration, Result<>& out, bool& done) {
  out = co_await sleep_for(duration);
  done = true;
  co_return ok();
}

TEST(Task, ReturnsValuesAndErrorsThroughCalls) {
  ManualLoop loop;
  Scope scope{loop};
  std::optional<Result<int>> good;
  std::optional<Result<int>> bad;
  scope.spawn("good", store(fail_if_negative(21), good));
  scope.spawn("bad", store(fail_if_negative(-1), bad));
  ASSERT_TRUE(good && bad);
  EXPECT_EQ(42, **good);
  EXPECT_EQ(Code::kInvalidArgument, bad->error().code);
}

Task<> count_to(int limit, int& counter) {
  for (int i = 0; i < limit; ++i) {
    CO_TRY(counter, co_await add(counter, 1));
  }
  co_return ok();
}

TEST(Task, MillionsOfSynchronousCompletionsDoNotGrowTheStack) {
  ManualLoop loop;
  Scope scope{loop};
  int counter = 0;
  scope.spawn("count", count_to(3'000'000, counter));
  EXPECT_EQ(3'000'000, counter);
}

TEST(Task, SleepWakesWhenTheClockSaysSo) {
  ManualLoop loop;
  Scope scope{loop};
  Result<> outcome;
  bool done = false;
  scope.spawn("sleeper", sleep_then_set(10ms, outcome, done));
  loop.advance(9ms);
  EXPECT_FALSE(done);
  loop.advance(1ms);
  EXPECT_TRUE(done);
  EXPECT_TRUE(outcome.has_value());
}

TEST(Task, CancellationIsAValueAtTheLeaf) {
  ManualLoop loop;
  Scope scope{loop};
  Result<> outcome;
  bool done = false;
  scope.spawn("sleeper", sleep_then_set(1h, outcome, done));
  scope.cancel();
  loop.run_ready();
  EXPECT_TRUE(done);
  EXPECT_EQ(Code::kCancelled, outcome.error().code);
  EXPECT_EQ(0U, loop.timer_count());
}

Task<int> slow_answer() {
  CO_TRY_DO(co_await sleep_for(1h));
  co_return 1;
}

TEST(Task, DeadlineTurnsIntoItsOwnError) {
  ManualLoop loop;
  Scope scope{loop};
  std::optional<Result<int>> out;
  scope.spawn("deadline", store(with_deadline(5ms, slow_answer()), out));
  loop.advance(5ms);
  ASSERT_TRUE(out);
  EXPECT_EQ(Code::kDeadlineExceeded, out->error().code);
  EXPECT_EQ(0U, loop.timer_count());
}

TEST(Task, DeadlineThatIsNotReachedLeavesNoTimer) {
  ManualLoop loop;
  Scope scope{loop};
  std::optional<Result<int>> out;
  scope.spawn("deadline", store(with_deadline(5ms, add(1, 2)), out));
  EXPECT_EQ(3, **out);
  EXPECT_EQ(0U, loop.timer_count());
}

Task<int> cleanup() {
  CO_TRY_DO(co_await sleep_for(1ms));
  co_return 7;
}
Task<int> work_with_cleanup() {
  const auto slept = co_await sleep_for(1h);
  if (!slept) {
    co_return co_await shielded(cleanup());
  }
  co_return 0;
}

TEST(Task, ShieldedCleanupRunsAfterCancellation) {
  ManualLoop loop;
  Scope scope{loop};
  std::optional<Result<int>> out;
  scope.spawn("cleanup", store(work_with_cleanup(), out));
  scope.cancel();
  loop.advance(1ms);
  ASSERT_TRUE(out);
  EXPECT_EQ(7, **out);
}

Task<> nested(Loop&, int& finished) {
  Scope inner{co_await current_context()};
  Result<> ignored;
  bool done = false;
  inner.spawn("child", sleep_then_set(1h, ignored, done));
  CO_TRY_DO(co_await inner.join());
  finished = done ? 1 : 2;
  co_return ok();
}

TEST(Scope, CancellingTheParentReachesNestedScopesAndJoinWaits) {
  ManualLoop loop;
  Scope scope{loop};
  int finished = 0;
  scope.spawn("nested", nested(loop, finished));
  EXPECT_EQ(0, finished);
  scope.cancel();
  loop.run_ready();
  EXPECT_EQ(1, finished);
  EXPECT_EQ(0U, scope.running());
}

TEST(Scope, ReportsErrorsOfChildrenButNotCancellation) {
  ManualLoop loop;
  Scope scope{loop};
  std::vector<std::string> seen;
  scope.on_error([&](const char* name, const Error& error) {
    seen.push_back(std::string{name} + ":" + error.message);
  });
  Result<> ignored;
  bool done = false;
  struct Failing {
    static Task<> run() { co_return fail(Code::kInternal, "boom"); }
  };
  scope.spawn("bad", Failing::run());
  scope.spawn("sleeper", sleep_then_set(1h, ignored, done));
  scope.cancel();
  loop.run_ready();
  EXPECT_EQ(std::vector<std::string>{"bad:boom"}, seen);
}

Task<> wait_for(Event& event, int& woken) {
  CO_TRY_DO(co_await event.wait());
  ++woken;
  co_return ok();
}

TEST(Event, WakesAllWaitersAndLateOnesAtOnce) {
  ManualLoop loop;
  Scope scope{loop};
  Event event;
  int woken = 0;
  scope.spawn("a", wait_for(event, woken));
  scope.spawn("b", wait_for(event, woken));
  event.set();
  loop.run_ready();
  EXPECT_EQ(2, woken);
  scope.spawn("c", wait_for(event, woken));
  EXPECT_EQ(3, woken);
}

TEST(Event, CancelledWaiterIsWithdrawn) {
  ManualLoop loop;
  Event event;
  int woken = 0;
  Scope scope{loop};
  scope.spawn("a", wait_for(event, woken));
  scope.cancel();
  loop.run_ready();
  event.set();
  loop.run_ready();
  EXPECT_EQ(0, woken);
  EXPECT_EQ(0U, scope.running());
}

}  // namespace
}  // namespace atl
