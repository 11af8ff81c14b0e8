// Questions that wait, are answered, time out and are withdrawn.
#include "control/approvals.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "control/fixture.h"
#include "control/limits.h"
#include "io/reactor.h"

namespace atl::control {
namespace {

egress::ApprovalQuestion question(std::string what = "GET https://example.com/") {
  return {.sandbox_id = "rs-1",
          .team_id = "default",
          .flow_id = "f-1",
          .rule = "ask-web",
          .what = std::move(what)};
}

class ApprovalsTest : public testing::Test {
 protected:
  void run(Task<> script) {
    const auto done = reactor_.run_until_complete(beside(std::move(script)));
    EXPECT_TRUE(done) << done.error().message;
  }
  Task<> beside(Task<> script) {
    Scope scope{co_await current_context()};
    scope.spawn("log", log_.run());
    auto done = co_await with_deadline(std::chrono::seconds{30}, std::move(script));
    (void)co_await scope.cancel_and_join();
    co_return std::move(done);
  }
  Task<> note(egress::ApprovalQuestion asked, std::string& out) {
    const auto answer = co_await approvals_.ask(std::move(asked));
    out = !answer ? "error" : *answer ? "allowed" : "denied";
    co_return ok();
  }
  // The one question that waits.
  Task<std::string> waiting() {
    CO_TRY(const auto found,
           co_await approvals_.list(
               {.team_id = "default", .sandbox_id = {}, .state = ApprovalState::kPending}));
    co_return found.empty() ? std::string{} : found.front().id;
  }

  Task<> answer_both_ways() {
    Scope asking{co_await current_context()};
    std::string first;
    std::string second;
    asking.spawn("ask", note(question(), first));
    CO_TRY(const auto id, co_await waiting());
    EXPECT_FALSE(approvals_.answer("other", id, {.allow = true}));
    EXPECT_TRUE(first.empty());
    const auto answered = approvals_.answer("default", id, {.allow = true, .answered_by = "key-1"});
    EXPECT_TRUE(answered);
    EXPECT_EQ(approvals_.answer("default", id, {.allow = true}).error().code, Code::kNotFound);
    CO_TRY_DO(co_await asking.join());
    EXPECT_EQ(first, "allowed");
    // Once is once.
    asking.spawn("ask", note(question(), second));
    CO_TRY(const auto next, co_await waiting());
    EXPECT_TRUE(approvals_.answer("default", next, {.allow = false, .answered_by = "key-2"}));
    CO_TRY_DO(co_await asking.join());
    EXPECT_EQ(second, "denied");
    CO_TRY(const auto ended,
           co_await approvals_.list({.team_id = "default", .sandbox_id = {}, .state = {}}));
    EXPECT_EQ(ended.size(), 2U);
    EXPECT_EQ(ended.at(0).answered_by, "key-2");
    EXPECT_EQ(ended.at(1).answered_by, "key-1");
    EXPECT_EQ(ended.at(1).question.what, "GET https://example.com/");
    co_return ok();
  }

  Task<> remember() {
    Scope asking{co_await current_context()};
    std::string first;
    asking.spawn("ask", note(question(), first));
    CO_TRY(const auto id, co_await waiting());
    EXPECT_TRUE(approvals_.answer("default", id, {.allow = true, .for_session = true}));
    CO_TRY_DO(co_await asking.join());
    CO_TRY(const bool again, co_await approvals_.ask(question()));
    EXPECT_TRUE(again);
    // Something else is another question.
    std::string other;
    asking.spawn("ask", note(question("GET https://example.com/other"), other));
    CO_TRY(const auto next, co_await waiting());
    EXPECT_FALSE(next.empty());
    CO_TRY_DO(co_await asking.cancel_and_join());
    EXPECT_EQ(other, "error");
    CO_TRY(const auto gone,
           co_await approvals_.list(
               {.team_id = "default", .sandbox_id = {}, .state = ApprovalState::kWithdrawn}));
    EXPECT_EQ(gone.size(), 1U);
    co_return ok();
  }

  Task<> time_out() {
    Approvals impatient{log_, clock_, metrics_, std::chrono::milliseconds{5}};
    CO_TRY(const bool allowed, co_await impatient.ask(question()));
    EXPECT_FALSE(allowed);
    CO_TRY(const auto ended,
           co_await impatient.list(
               {.team_id = "default", .sandbox_id = "rs-1", .state = ApprovalState::kTimedOut}));
    EXPECT_EQ(ended.size(), 1U);
    EXPECT_TRUE(ended.at(0).answered_by.empty());
    co_return ok();
  }

  Task<> too_many() {
    Scope asking{co_await current_context()};
    std::vector<std::string> answers(kMaxApprovalsPerSandbox);
    for (auto& answer : answers) {
      asking.spawn("ask", note(question(), answer));
    }
    const auto refused = co_await approvals_.ask(question());
    EXPECT_EQ(refused.error().reason, "too_many_approvals");
    CO_TRY_DO(co_await asking.cancel_and_join());
    co_return ok();
  }

  Task<> follow() {
    Scope asking{co_await current_context()};
    std::uint64_t from = approvals_.now_in_news();
    std::string out;
    asking.spawn("ask", note(question(), out));
    CO_TRY(const auto asked, co_await approvals_.news("default", "rs-1", from));
    EXPECT_EQ(asked.at(0).state, ApprovalState::kPending);
    EXPECT_TRUE(approvals_.answer("default", asked.at(0).id, {.allow = false}));
    CO_TRY(const auto answered, co_await approvals_.news("default", "", from));
    EXPECT_EQ(answered.at(0).state, ApprovalState::kDenied);
    co_return co_await asking.join();
  }

  TemporaryDirectory directory_;
  SystemWallClock clock_;
  Metrics metrics_;
  io::Reactor reactor_;
  io::OffloadPool thread_{"flows", 1, 100};
  std::unique_ptr<store::FlowFile> file_ =
      *store::open_sqlite_flow_file(directory_.path() + "/flows.db");
  FlowLog log_{*file_, thread_, clock_, metrics_};
  Approvals approvals_{log_, clock_, metrics_, kApprovalTimeout};
};

TEST_F(ApprovalsTest, WaitForAnAnswerAndKeepWhoGaveIt) {
  run(answer_both_ways());
}

TEST_F(ApprovalsTest, AnAnswerForTheSessionAnswersTheSameAgain) {
  run(remember());
}

TEST_F(ApprovalsTest, NobodyAnswering) {
  run(time_out());
}

TEST_F(ApprovalsTest, TooManyOfOneSandboxAreRefused) {
  run(too_many());
}

TEST_F(ApprovalsTest, AreFollowed) {
  run(follow());
}

}  // namespace
}  // namespace atl::control
