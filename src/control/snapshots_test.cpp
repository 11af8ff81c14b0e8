// Snapshots, restoring and forks, with a fake node and a real store.
#include "control/snapshots.h"

#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

class SnapshotsTest : public SandboxesTest {
 protected:
  void SetUp() override {
    SandboxesTest::SetUp();
    open_snapshots();
  }
  void TearDown() override {
    EXPECT_TRUE(simulation_.run(scope_->cancel_and_join()));  // what waits for snapshots goes first
    scope_.reset();
    snapshots_.reset();
    SandboxesTest::TearDown();
  }
  void open_snapshots() {
    snapshots_ = std::make_unique<Snapshots>(StoreAccess{*store_, nullptr}, node_, *sandboxes_,
                                             simulation_.clock);
    const auto started = simulation_.run(snapshots_->start());
    ASSERT_TRUE(started) << started.error().message;
  }
  // What a new process finds.
  void restart() {
    snapshots_.reset();
    close();
    open();
    open_snapshots();
  }
  Result<Snapshot> take(const std::string& id, SnapshotRequest request = {}) {
    return simulation_.run(snapshots_->create(kTeam, id, std::move(request)));
  }

  std::unique_ptr<Snapshots> snapshots_;
};

TEST_F(SnapshotsTest, ASnapshotOutlivesRestartsAndItsSandbox) {
  const std::string id = claim({.env = {{"A", "1"}}})->id;
  const auto taken = take(id, {.name = "before", .description = "the upgrade"});
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_TRUE(node_.snapshots.contains(taken->id));
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  restart();
  const auto again = snapshots_->get(kTeam, taken->id);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *taken);
  EXPECT_EQ(snapshots_->list(kTeam, id)->size(), 1U);
  EXPECT_FALSE(snapshots_->get("other-team", taken->id));
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id)));
  EXPECT_FALSE(snapshots_->list(kTeam, id));
  const auto child = simulation_.run(snapshots_->claim(taken->id, {}));
  ASSERT_TRUE(child) << child.error().message;
  const Sandbox& row = child->sandboxes.front();
  EXPECT_EQ(row.env.at("A"), "1");
  EXPECT_EQ(row.parent_id, id);
  EXPECT_EQ(node_.requests.at(row.id).from_snapshot, taken->id);
  EXPECT_EQ(store_->find_sandbox(row.id)->parent_id, id);
}

TEST_F(SnapshotsTest, WhatWasNeverFinishedIsRemovedAtTheStart) {
  node_.snapshots = {"snap-lost", "fork-lost", "another-tool"};
  const std::string id = claim()->id;
  const std::string kept = take(id)->id;
  restart();
  EXPECT_EQ(node_.snapshots, (std::set<std::string>{"another-tool", kept}));
}

TEST_F(SnapshotsTest, AFailedSnapshotLeavesNothing) {
  const std::string id = claim()->id;
  node_.fault = [](std::string_view operation) {
    return operation == "snapshot" ? FakeNode::Fault::kRefused : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(take(id));
  EXPECT_TRUE(snapshots_->list(kTeam, id)->empty());
  node_.fault = nullptr;
  EXPECT_FALSE(take(id, {.name = std::string(1000, 'x')}));
  EXPECT_FALSE(take(id, {.expires_at = simulation_.clock.now()}));
  EXPECT_FALSE(take("rs-none"));
  EXPECT_TRUE(node_.snapshots.empty());
}

TEST_F(SnapshotsTest, DeletingIsForGood) {
  const std::string id = claim()->id;
  const std::string snapshot = take(id)->id;
  ASSERT_TRUE(simulation_.run(snapshots_->remove(kTeam, snapshot)));
  EXPECT_TRUE(node_.snapshots.empty());
  EXPECT_FALSE(simulation_.run(snapshots_->remove(kTeam, snapshot)));
  restart();
  EXPECT_TRUE(snapshots_->list(kTeam, id)->empty());
}

TEST_F(SnapshotsTest, ExpiryComesToTheSecond) {
  const std::string id = claim()->id;
  scope_->spawn("snapshots", snapshots_->run());
  simulation_.advance_ms(1);
  const auto short_lived = take(id, {.expires_at = simulation_.clock.now() + 5'000});
  const auto kept = take(id);
  simulation_.advance_ms(4'900);
  EXPECT_TRUE(snapshots_->get(kTeam, short_lived->id));
  simulation_.advance_ms(200);
  EXPECT_FALSE(snapshots_->get(kTeam, short_lived->id));
  EXPECT_EQ(node_.snapshots, std::set<std::string>{kept->id});
}

TEST_F(SnapshotsTest, RestoringNeedsADiskAtRestOrForce) {
  const std::string id = claim()->id;
  const std::string snapshot = take(id)->id;
  const auto running = simulation_.run(snapshots_->restore(kTeam, id, snapshot, false));
  ASSERT_FALSE(running);
  EXPECT_EQ(running.error().reason, "sandbox_running");
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, id, PauseMemory::kKeep)));
  const auto restored = simulation_.run(snapshots_->restore(kTeam, id, snapshot, false));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(restored->status, SandboxStatus::kPaused);
  EXPECT_EQ(node_.restored, std::vector<std::string>{id});
  EXPECT_FALSE(node_.cells.at(id).running) << "no process of another moment goes on";
  ASSERT_TRUE(simulation_.run(sandboxes_->resume(kTeam, id)));
  const auto forced = simulation_.run(snapshots_->restore(kTeam, id, snapshot, true));
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ(forced->status, SandboxStatus::kRunning);
  EXPECT_EQ(node_.restored.size(), 2U);
  EXPECT_FALSE(simulation_.run(snapshots_->restore(kTeam, id, "snap-none", true)));
}

TEST_F(SnapshotsTest, AForkMakesChildrenAndLeavesTheParentAlone) {
  const std::string id = claim({.env = {{"A", "1"}}, .labels = {{"team", "red"}}})->id;
  const auto children = simulation_.run(snapshots_->fork(kTeam, id, {.count = 3}));
  ASSERT_TRUE(children) << children.error().message;
  ASSERT_EQ(children->size(), 3U);
  for (const Sandbox& child : *children) {
    EXPECT_EQ(child.status, SandboxStatus::kPaused);
    EXPECT_EQ(child.parent_id, id);
    EXPECT_EQ(child.env.at("A"), "1");
    EXPECT_EQ(child.labels.at("team"), "red");
    EXPECT_TRUE(simulation_.run(sandboxes_->running(kTeam, child.id))) << "it wakes up";
  }
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_EQ(sandboxes_->get(kTeam, id)->generation, 1);
  EXPECT_TRUE(node_.snapshots.empty()) << "the moment of a fork is not kept";
  const auto many = simulation_.run(snapshots_->fork(kTeam, id, {.count = 3, .start = true}));
  ASSERT_FALSE(many) << "the quota is 5";
  EXPECT_TRUE(node_.snapshots.empty());
}

TEST_F(SnapshotsTest, LayersOfSnapshotsAreNeeded) {
  const std::string id = claim()->id;
  ASSERT_TRUE(take(id));
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id)));
  EXPECT_TRUE(sandboxes_->used_layers().contains("layer-1"));
}

}  // namespace
}  // namespace atl::control
