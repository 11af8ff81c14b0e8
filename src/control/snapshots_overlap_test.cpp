// What happens to snapshots and forks while something else is under way.
#include "control/limits.h"
#include "control/snapshots_fixture.h"

namespace atl::control {
namespace {

Task<ClaimAnswer> just(ClaimAnswer answer) {
  co_return std::move(answer);
}

Task<ClaimAnswer> pause_slowly(Sandboxes& sandboxes, ClaimAnswer answer) {
  CO_TRY_DO(co_await sleep_for(std::chrono::seconds{1}));
  for (Sandbox& child : answer.sandboxes) {
    CO_TRY(auto paused, co_await sandboxes.pause(kTeam, child.id, PauseMemory::kKeep));
    child = std::move(paused.sandbox);
  }
  answer.interpreters.emplace();
  co_return std::move(answer);
}

TEST_F(SnapshotsTest, ChildrenThatMoveForAMomentArePausedForWhoeverFindsThem) {
  const std::string id = claim()->id;
  std::string child;
  ForkRequest request;
  request.hooks.children_made = [&](ClaimAnswer answer) -> Task<ClaimAnswer> {
    child = answer.sandboxes[0].id;
    return just(std::move(answer));  // killed before they are paused
  };
  ASSERT_TRUE(simulation_.run(snapshots_->fork(kTeam, id, std::move(request))));
  EXPECT_EQ(status(child), SandboxStatus::kRunning);
  EXPECT_FALSE(node_.cells.at(child).frozen);
  EXPECT_EQ(store_->find_sandbox(child)->status, SandboxStatus::kPaused);
  restart();
  simulation_.advance_ms(1000);
  EXPECT_EQ(status(child), SandboxStatus::kPaused);
  EXPECT_TRUE(node_.cells.at(child).frozen);
}

TEST_F(SnapshotsTest, WhoeverAsksAgainWaitsForTheEndOfAForkAndGetsItsAnswer) {
  const std::string id = claim()->id;
  const auto forked = [&] {
    ForkRequest request{.once = ClaimOnce{.key = "k", .body_sha256 = "b"}};
    request.once->remember = [](const ClaimAnswer& answer) {
      return std::string{answer.interpreters ? "whole" : "half"};
    };
    request.hooks.children_made = [this](ClaimAnswer answer) {
      return pause_slowly(*sandboxes_, std::move(answer));
    };
    return snapshots_->fork(kTeam, id, std::move(request));
  };
  std::optional<Result<ClaimAnswer>> first;
  scope_->spawn("fork", Simulation::store_result(forked(), first));
  simulation_.advance_ms(500);
  const auto again = simulation_.run(forked());
  ASSERT_TRUE(first && *first);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->remembered, "whole");
  const std::string child = (*first)->sandboxes[0].id;
  EXPECT_EQ(status(child), SandboxStatus::kPaused);
  EXPECT_EQ(store_->find_sandbox(child)->status, SandboxStatus::kPaused);
  EXPECT_TRUE(node_.cells.at(child).frozen);
  const auto resumed = simulation_.run(sandboxes_->resume(kTeam, child));
  EXPECT_TRUE(resumed && resumed->restored == ResumeAnswer::Restored::kMemory);
}

TEST_F(SnapshotsTest, ASnapshotThatIsDeletedMeanwhileIsThereUntilTheRestoreHasEnded) {
  const std::string id = claim()->id;
  const std::string snapshot = take(id)->id;
  node_.latency = [] { return std::chrono::milliseconds{50}; };
  std::optional<Result<Sandbox>> restored;
  std::optional<Result<ClaimAnswer>> begun;
  scope_->spawn("restore",
                Simulation::store_result(snapshots_->restore(kTeam, id, snapshot, true), restored));
  scope_->spawn("claim", Simulation::store_result(snapshots_->claim(snapshot, {}), begun));
  simulation_.advance_ms(5);
  ASSERT_TRUE(simulation_.run(snapshots_->remove(kTeam, snapshot)));
  EXPECT_TRUE(node_.snapshots.contains(snapshot));
  simulation_.advance_ms(1000);
  ASSERT_TRUE(restored && begun);
  EXPECT_TRUE(*restored);
  EXPECT_TRUE(*begun);
  EXPECT_FALSE(node_.snapshots.contains(snapshot)) << "it goes with the last who needs it";
}

TEST_F(SnapshotsTest, SnapshotsBeingMadeCountToo) {
  const std::string id = claim()->id;
  for (std::size_t i = 0; i + 1 < kMaxSnapshotsPerTeam; ++i) {
    ASSERT_TRUE(take(id));
  }
  node_.latency = [] { return std::chrono::milliseconds{50}; };
  std::optional<Result<SnapshotCreated>> last;
  scope_->spawn("take", Simulation::store_result(snapshots_->create(kTeam, id, {}), last));
  simulation_.advance_ms(5);
  EXPECT_EQ(take(id).error().reason, "quota_exceeded");
  simulation_.advance_ms(500);
  EXPECT_TRUE(last && *last);
}

}  // namespace
}  // namespace atl::control
