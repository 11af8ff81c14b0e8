#include "control/volumes_fixture.h"

namespace atl::control {
namespace {

TEST_F(VolumesTest, LivesOnItsOwn) {
  const std::string id = make({.user_id = "key-1",
                               .access_mode = AccessMode::kMany,
                               .posix_uid = 1000,
                               .disk_bytes = 64ULL << 20});
  EXPECT_TRUE(node_.volumes.contains(id));
  crash();
  const auto found = get(id);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->volume.user_id, "key-1");
  EXPECT_EQ(found->volume.access_mode, AccessMode::kMany);
  EXPECT_EQ(found->volume.posix_uid, 1000U);
  EXPECT_EQ(found->used_bytes, 4096U);
  EXPECT_TRUE(remove(id));
  EXPECT_TRUE(remove(id)) << "gone is gone";
  EXPECT_FALSE(node_.volumes.contains(id));
  EXPECT_EQ(rows(), 0U);
}

TEST_F(VolumesTest, BelongsToItsTeam) {
  const std::string id = make();
  EXPECT_FALSE(simulation_.run(volumes_->get("other", id)));
  EXPECT_TRUE(simulation_.run(volumes_->remove("other", id, true))) << "and nothing happens";
  EXPECT_TRUE(get(id));
  EXPECT_FALSE(volumes_->bind("other", {{id, "/data"}}, 1));
  EXPECT_FALSE(simulation_.run(volumes_->open({"other", id})));
}

TEST_F(VolumesTest, RefusesWhatMakesNoSense) {
  VolumeCreate requests[] = {
      {.posix_uid = 65536}, {.disk_bytes = 1}, {.disk_bytes = 1ULL << 60}, {.backend = "tape"}};
  for (VolumeCreate& request : requests) {
    const auto made = simulation_.run(volumes_->create(kTeam, std::move(request)));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(simulation_.run(volumes_->create(kTeam, {.snapshot_id = "vsnap-x"})).error().code,
            Code::kNotFound);
  EXPECT_EQ(rows(), 0U);
  EXPECT_TRUE(node_.volumes.empty());
}

// Whatever becomes of the answer: a volume that was not acknowledged leaves nothing.
TEST_F(VolumesTest, ACreateThatFailsLeavesNothing) {
  using Fault = FakeNode::Fault;
  for (const Fault fault : {Fault::kUnreached, Fault::kAnswerLost, Fault::kRefused}) {
    fail_once("create_volume", fault);
    EXPECT_FALSE(simulation_.run(volumes_->create(kTeam, {})));
    EXPECT_TRUE(node_.volumes.empty());
    EXPECT_EQ(rows(), 0U);
  }
}

TEST_F(VolumesTest, DisksWithoutRowsGoAtTheStart) {
  const std::string id = make();
  const auto kept = simulation_.run(volumes_->snapshot(kTeam, id, {.name = "kept"}));
  ASSERT_TRUE(kept);
  node_.volumes.insert("vol-orphan");
  node_.snapshots.insert({"vsnap-orphan", "vfork-orphan"});
  crash();
  EXPECT_EQ(node_.volumes, std::set<std::string>{id});
  EXPECT_EQ(node_.snapshots, std::set<std::string>{kept->id});
}

TEST_F(VolumesTest, ADeletionThatLosesTheNodeIsFinishedAtTheStart) {
  const std::string id = make();
  fail_once("remove_volume", FakeNode::Fault::kUnreached);
  EXPECT_TRUE(remove(id));
  EXPECT_TRUE(node_.volumes.contains(id));
  crash();
  EXPECT_TRUE(node_.volumes.empty());
}

// The node alone is killed: nobody starts this process again to clean up.
TEST_F(VolumesTest, WhatTheNodeCouldNotRemoveIsRemovedLater) {
  const std::string kept = make();
  Scope running{simulation_.loop};
  running.spawn("run", volumes_->run());
  node_.fault = [](std::string_view asked) {
    return asked == "create_volume"   ? FakeNode::Fault::kAnswerLost
           : asked == "remove_volume" ? FakeNode::Fault::kUnreached
                                      : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(simulation_.run(volumes_->create(kTeam, {})));
  EXPECT_EQ(node_.volumes.size(), 2U);
  simulation_.advance_ms(3000);
  EXPECT_EQ(node_.volumes.size(), 2U);
  node_.fault = nullptr;
  simulation_.advance_ms(3000);
  EXPECT_EQ(node_.volumes, std::set<std::string>{kept});
  EXPECT_TRUE(simulation_.run(running.cancel_and_join()));
}

// Both ask while there is room for one.
TEST_F(VolumesTest, VolumesBeingMadeCountToo) {
  for (std::size_t i = 1; i < kMaxVolumesPerTeam; ++i) {
    ASSERT_TRUE(store_->put_volume(
        {.id = concat("vol-", i), .team_id = kTeam, .backend = "elsewhere", .settings = "{}"}));
  }
  crash();
  node_.latency = [] { return std::chrono::milliseconds{5}; };
  Scope making{simulation_.loop};
  std::optional<Result<VolumeView>> one;
  std::optional<Result<VolumeView>> other;
  making.spawn("one", Simulation::store_result(volumes_->create(kTeam, {}), one));
  making.spawn("other", Simulation::store_result(volumes_->create(kTeam, {}), other));
  EXPECT_TRUE(simulation_.run(making.join()));
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->has_value(), other->has_value());
  EXPECT_EQ(rows(), kMaxVolumesPerTeam);
}

TEST_F(VolumesTest, OneSandboxAtATime) {
  const std::string id = make();
  const auto first = claim_with(id);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->mounts, (std::vector<Mount>{{id, "/data", false}}));
  ASSERT_EQ(node_.requests[first->id].mounts.size(), 1U);
  EXPECT_EQ(node_.requests[first->id].mounts[0].volume, id);
  EXPECT_EQ(claim_with(id).error().reason, "volume_mounted");
  EXPECT_EQ(claim({.count = 2, .mounts = {{id, "/data"}}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(remove(id).error().reason, "volume_mounted");
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, first->id)));
  EXPECT_TRUE(claim_with(id));
}

TEST_F(VolumesTest, ReadersOnlyRead) {
  const std::string id = make({.access_mode = AccessMode::kManyReaders});
  const auto one = claim_with(id);
  const auto other = claim_with(id);
  ASSERT_TRUE(one);
  ASSERT_TRUE(other);
  EXPECT_TRUE(one->mounts[0].read_only);
  EXPECT_TRUE(node_.requests[other->id].mounts[0].read_only);
}

TEST_F(VolumesTest, MountsSurviveRestarts) {
  const std::string id = make();
  const auto sandbox = claim_with(id);
  ASSERT_TRUE(sandbox);
  node_.kill(sandbox->id);
  simulation_.advance_ms(100);
  EXPECT_EQ(node_.requests[sandbox->id].mounts.size(), 1U);
  node_.cells[sandbox->id].running = false;
  crash();
  EXPECT_EQ(status(sandbox->id), SandboxStatus::kRunning);
  EXPECT_EQ(node_.requests[sandbox->id].mounts.size(), 1U);
  EXPECT_EQ(get(id)->sandboxes, std::vector<std::string>{sandbox->id});
}

TEST_F(VolumesTest, ForceTakesItAway) {
  const std::string id = make({.access_mode = AccessMode::kMany});
  const auto running = claim_with(id);
  const auto asleep = claim_with(id);
  ASSERT_TRUE(running);
  ASSERT_TRUE(asleep);
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, asleep->id, PauseMemory::kDrop)));
  EXPECT_TRUE(remove(id, true));
  ASSERT_EQ(node_.detached.size(), 1U);
  EXPECT_EQ(node_.detached[0].id, running->id);
  crash();
  EXPECT_TRUE(sandboxes_->get(kTeam, running->id)->mounts.empty());
  EXPECT_TRUE(sandboxes_->get(kTeam, asleep->id)->mounts.empty());
  EXPECT_EQ(sandboxes_->get(kTeam, running->id)->generation, 1);
}

TEST_F(VolumesTest, WhatCannotBeDetachedStartsAgainWithout) {
  const std::string id = make();
  const auto sandbox = claim_with(id);
  ASSERT_TRUE(sandbox);
  fail_once("detach_volume", FakeNode::Fault::kRefused);
  EXPECT_TRUE(remove(id, true));
  EXPECT_EQ(sandboxes_->get(kTeam, sandbox->id)->generation, 2);
  EXPECT_TRUE(node_.requests[sandbox->id].mounts.empty());
  EXPECT_TRUE(node_.cells[sandbox->id].running);
}

TEST_F(VolumesTest, SnapshotsNeedANameAndEnd) {
  const std::string id = make();
  EXPECT_FALSE(simulation_.run(volumes_->snapshot(kTeam, id, {})));
  Scope running{simulation_.loop};
  running.spawn("run", volumes_->run());
  const auto short_lived = simulation_.run(volumes_->snapshot(
      kTeam, id, {.name = "short", .expires_at = simulation_.clock.now() + 1000}));
  ASSERT_TRUE(short_lived);
  const auto from = simulation_.run(volumes_->create(kTeam, {.snapshot_id = short_lived->id}));
  ASSERT_TRUE(from);
  EXPECT_EQ(from->volume.source_volume_id, id);
  simulation_.advance_ms(1500);
  EXPECT_FALSE(volumes_->get_snapshot(kTeam, id, short_lived->id));
  EXPECT_TRUE(node_.snapshots.empty());
  EXPECT_TRUE(node_.volumes.contains(from->volume.id));
  EXPECT_TRUE(simulation_.run(running.cancel_and_join()));
}

}  // namespace
}  // namespace atl::control
