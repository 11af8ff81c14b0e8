// Volumes that go back, are forked, or are looked at while they change.
#include "control/volumes_fixture.h"
#include "io/stream.h"

namespace atl::control {
namespace {

TEST_F(VolumesTest, RestoreStopsItsUsersOnlyByForce) {
  const std::string id = make();
  const auto moment = simulation_.run(volumes_->snapshot(kTeam, id, {.name = "then"}));
  ASSERT_TRUE(moment);
  const auto sandbox = claim_with(id);
  ASSERT_TRUE(sandbox);
  const auto refused = simulation_.run(volumes_->restore(kTeam, id, moment->id, false));
  EXPECT_EQ(refused.error().reason, "volume_mounted");
  EXPECT_TRUE(node_.restored_volumes.empty());
  EXPECT_TRUE(simulation_.run(volumes_->restore(kTeam, id, moment->id, true)));
  EXPECT_EQ(node_.restored_volumes, std::vector<std::string>{id});
  EXPECT_EQ(sandboxes_->get(kTeam, sandbox->id)->generation, 2);
  EXPECT_TRUE(node_.cells[sandbox->id].running);
  // A restore that fails starts them again too.
  fail_once("restore_volume", FakeNode::Fault::kRefused);
  EXPECT_FALSE(simulation_.run(volumes_->restore(kTeam, id, moment->id, true)));
  EXPECT_TRUE(node_.cells[sandbox->id].running);
}

// Whoever mounted it now would write to the disk that goes away.
TEST_F(VolumesTest, NobodyBeginsToMountWhatIsBeingRestored) {
  const std::string id = make({.access_mode = AccessMode::kMany});
  const auto moment = simulation_.run(volumes_->snapshot(kTeam, id, {.name = "then"}));
  ASSERT_TRUE(moment);
  const auto parent = claim_with(id);
  ASSERT_TRUE(parent);
  node_.latency = [] { return std::chrono::milliseconds{50}; };
  Scope restoring{simulation_.loop};
  std::optional<Result<>> restored;
  restoring.spawn("restore", Simulation::store_result(
                                 volumes_->restore(kTeam, id, moment->id, true), restored));
  simulation_.advance_ms(10);
  EXPECT_EQ(claim_with(id).error().code, Code::kAborted);
  EXPECT_EQ(claim({.own_mounts = {{{id, "/data"}}}}).error().code, Code::kAborted);
  EXPECT_FALSE(restored);
  EXPECT_TRUE(simulation_.run(restoring.join()));
  ASSERT_TRUE(restored && *restored);
  EXPECT_TRUE(claim_with(id));
}

TEST_F(VolumesTest, RestoreEndsMemoryOnDiskOnlyByForce) {
  node_.has_dumps = true;
  crash();
  const std::string id = make();
  const auto moment = simulation_.run(volumes_->snapshot(kTeam, id, {.name = "then"}));
  ASSERT_TRUE(moment);
  const auto sandbox = claim_with(id);
  ASSERT_TRUE(sandbox);
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, sandbox->id, PauseMemory::kDump)));
  ASSERT_TRUE(node_.cells[sandbox->id].dumped);
  const auto refused = simulation_.run(volumes_->restore(kTeam, id, moment->id, false));
  EXPECT_EQ(refused.error().reason, "volume_mounted");
  EXPECT_TRUE(simulation_.run(volumes_->restore(kTeam, id, moment->id, true)));
  EXPECT_FALSE(node_.cells[sandbox->id].dumped);
  EXPECT_EQ(status(sandbox->id), SandboxStatus::kPaused);
}

// Its sandbox was paused when the restore was asked for, and runs when its turn comes.
TEST_F(VolumesTest, RestoreLooksAgainWhenItHasItsUsers) {
  const std::string id = make();
  const auto moment = simulation_.run(volumes_->snapshot(kTeam, id, {.name = "then"}));
  ASSERT_TRUE(moment);
  const auto sandbox = claim_with(id);
  ASSERT_TRUE(sandbox);
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, sandbox->id, PauseMemory::kDrop)));
  node_.latency = [] { return std::chrono::milliseconds{50}; };
  Scope resuming{simulation_.loop};
  std::optional<Result<ResumeAnswer>> resumed;
  resuming.spawn("resume",
                 Simulation::store_result(sandboxes_->resume(kTeam, sandbox->id), resumed));
  simulation_.advance_ms(5);
  const auto restored = simulation_.run(volumes_->restore(kTeam, id, moment->id, false));
  EXPECT_EQ(restored.error().reason, "volume_mounted");
  ASSERT_TRUE(resumed && *resumed);
  EXPECT_TRUE(node_.cells[sandbox->id].running);
  EXPECT_TRUE(node_.restored_volumes.empty());
}

TEST_F(VolumesTest, ASnapshotIsNotRemovedFromUnderAVolumeThatBeginsAsIt) {
  const std::string id = make();
  const auto moment = simulation_.run(volumes_->snapshot(kTeam, id, {.name = "then"}));
  ASSERT_TRUE(moment);
  node_.latency = [] { return std::chrono::milliseconds{20}; };
  Scope removing{simulation_.loop};
  removing.spawn("remove", volumes_->remove_snapshot(kTeam, id, moment->id));
  removing.spawn("again", volumes_->remove_snapshot(kTeam, id, moment->id));
  simulation_.advance_ms(5);
  const auto made = simulation_.run(volumes_->create(kTeam, {.snapshot_id = moment->id}));
  EXPECT_EQ(made.error().reason, "snapshot_not_found");
  EXPECT_TRUE(simulation_.run(removing.join()));
  EXPECT_EQ(rows(), 1U);
}

TEST_F(VolumesTest, AForkIsAVolumeOfItsOwn) {
  const std::string id = make({.posix_uid = 7});
  const auto fork = simulation_.run(volumes_->fork(kTeam, id, {.access_mode = AccessMode::kMany}));
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_EQ(fork->volume.source_volume_id, id);
  EXPECT_EQ(fork->volume.posix_uid, 7U);
  EXPECT_EQ(fork->volume.access_mode, AccessMode::kMany);
  EXPECT_TRUE(node_.snapshots.empty()) << "the moment of the fork is gone";
  EXPECT_TRUE(remove(id));
  EXPECT_TRUE(get(fork->volume.id));
}

TEST_F(VolumesTest, ChildrenOfASandbox) {
  const std::string own = make();
  const std::string shared = make({.access_mode = AccessMode::kMany});
  const auto parent = claim({.mounts = {{own, "/own"}, {shared, "/shared"}}});
  ASSERT_TRUE(parent);
  Snapshots snapshots{StoreAccess{*store_, nullptr}, node_, *sandboxes_, simulation_.clock};
  const auto children =
      simulation_.run(snapshots.fork(kTeam, parent->id, {.count = 2, .start = true}));
  ASSERT_TRUE(children) << children.error().message;
  std::set<std::string> owned;
  for (const Sandbox& child : children->sandboxes) {
    ASSERT_EQ(child.mounts.size(), 2U);
    EXPECT_EQ(child.mounts[1].volume_id, shared);
    EXPECT_TRUE(owned.insert(child.mounts[0].volume_id).second);
    EXPECT_EQ(get(child.mounts[0].volume_id)->volume.source_volume_id, own);
  }
  EXPECT_FALSE(owned.contains(own));
  crash();
  EXPECT_EQ(rows(), 4U);
}

// Its disk and its volumes are of one moment, the same for all children.
TEST_F(VolumesTest, ASandboxStandsStillWhileItsVolumesAreForked) {
  const std::string own = make();
  const auto parent = claim_with(own);
  ASSERT_TRUE(parent);
  std::vector<std::string> asked;
  bool frozen = false;
  node_.fault = [&](std::string_view operation) {
    if (operation == "snapshot" || operation == "snapshot_volume") {
      asked.emplace_back(operation);
      frozen = node_.cells[parent->id].frozen;
      EXPECT_TRUE(frozen);
    }
    return FakeNode::Fault::kNone;
  };
  Snapshots snapshots{StoreAccess{*store_, nullptr}, node_, *sandboxes_, simulation_.clock};
  ASSERT_TRUE(simulation_.run(snapshots.fork(kTeam, parent->id, {.count = 3, .start = true})));
  EXPECT_EQ(asked, (std::vector<std::string>{"snapshot", "snapshot_volume"}));
  EXPECT_FALSE(node_.cells[parent->id].frozen);
  EXPECT_TRUE(node_.snapshots.empty()) << "the moments are gone";
  fail_once("snapshot_volume", FakeNode::Fault::kRefused);
  EXPECT_FALSE(simulation_.run(snapshots.fork(kTeam, parent->id, {.start = true})));
  EXPECT_FALSE(node_.cells[parent->id].frozen);
  EXPECT_TRUE(node_.snapshots.empty());
}

TEST_F(VolumesTest, AForkThatFailsLeavesNoVolumes) {
  const std::string own = make();
  const auto parent = claim_with(own);
  ASSERT_TRUE(parent);
  Snapshots snapshots{StoreAccess{*store_, nullptr}, node_, *sandboxes_, simulation_.clock};
  fail_once("create", FakeNode::Fault::kRefused);
  EXPECT_FALSE(simulation_.run(snapshots.fork(kTeam, parent->id, {.start = true})));
  EXPECT_EQ(rows(), 1U);
  EXPECT_EQ(node_.volumes, std::set<std::string>{own});
}

// Killed between the volume and the row of the child, and after it.
TEST_F(VolumesTest, AForkThatWasCutShortIsSettledAtTheStart) {
  const std::string own = make();
  const auto parent = claim_with(own);
  ASSERT_TRUE(parent);
  const auto unused = fork_mounts(own);
  const auto used = fork_mounts(own);
  ASSERT_TRUE(unused);
  ASSERT_TRUE(used);
  EXPECT_FALSE(get((*used)[0][0].volume_id)) << "nobody was promised it yet";
  ASSERT_TRUE(claim({.own_mounts = *used}));
  crash();
  EXPECT_TRUE(get((*used)[0][0].volume_id));
  EXPECT_FALSE(node_.volumes.contains((*unused)[0][0].volume_id));
  EXPECT_EQ(rows(), 2U);
}

// Two find it dead at the same time; what one has started is not ended by the other.
TEST_F(VolumesTest, ADeadCellForFilesIsStartedOnce) {
  const std::string socket = directory_.path() + "/silent.sock";
  const auto listener = io::Listener::bind_unix(socket, 0600);
  ASSERT_TRUE(listener);
  node_.guest_socket_of = [&](const std::string&) { return socket; };
  const std::string id = make();
  ASSERT_TRUE(simulation_.run(volumes_->open({kTeam, id})));
  const auto before = node_.creates;
  node_.latency = [] { return std::chrono::milliseconds{20}; };
  const Volume row = get(id)->volume;
  Scope asking{simulation_.loop};
  std::optional<Result<std::unique_ptr<Files>>> one;
  std::optional<Result<std::unique_ptr<Files>>> other;
  asking.spawn("one", Simulation::store_result(cells_->open(row), one));
  asking.spawn("other", Simulation::store_result(cells_->open(row), other));
  EXPECT_TRUE(simulation_.run(asking.join()));
  ASSERT_TRUE(one && other && *one && *other);
  EXPECT_EQ(node_.creates, before + 1);
}

TEST_F(VolumesTest, ACellForFilesThatCannotBeEndedIsTriedAgain) {
  const std::string id = make();
  ASSERT_TRUE(simulation_.run(volumes_->open({kTeam, id})));
  const std::string cell = concat(node::kFilesCellPrefix, id.substr(node::kVolumePrefix.size()));
  ASSERT_TRUE(node_.cells.contains(cell));
  node_.fault = [](std::string_view asked) {
    return asked == "destroy" ? FakeNode::Fault::kUnreached : FakeNode::Fault::kNone;
  };
  Scope running{simulation_.loop};
  running.spawn("cells", cells_->run());
  simulation_.advance_ms(60'000);
  EXPECT_TRUE(node_.cells.contains(cell));
  node_.fault = nullptr;
  simulation_.advance_ms(60'000);
  EXPECT_FALSE(node_.cells.contains(cell));
  EXPECT_TRUE(simulation_.run(running.cancel_and_join()));
}

TEST_F(VolumesTest, ATeamHasAShareOfTheCellsForFiles) {
  std::vector<std::unique_ptr<Files>> used;
  for (std::size_t i = 0; i < kMaxFileCellsPerTeam; ++i) {
    auto files = simulation_.run(volumes_->open({kTeam, make()}));
    ASSERT_TRUE(files);
    used.push_back(*std::move(files));
  }
  const std::string late = make();
  EXPECT_EQ(simulation_.run(volumes_->open({kTeam, late})).error().code, Code::kResourceExhausted);
  used.pop_back();
  EXPECT_TRUE(simulation_.run(volumes_->open({kTeam, late}))) << "one that is idle makes room";
}

}  // namespace
}  // namespace atl::control
