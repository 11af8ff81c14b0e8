// Snapshots, restoring and forks, with a fake node and a real store.
#include "control/limits.h"
#include "control/snapshots_fixture.h"

namespace atl::control {
namespace {

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

TEST_F(SnapshotsTest, WhatIsHeldStaysUntilItIsReleased) {
  const std::string id = claim()->id;
  const std::string taken = take(id)->id;
  const StateRef snapshot = state_ref(taken);
  ASSERT_EQ(snapshot.kind, StateRef::Kind::kSnapshot);
  ASSERT_TRUE(simulation_.run(snapshots_->hold(kTeam, snapshot)));
  ASSERT_TRUE(simulation_.run(snapshots_->hold(kTeam, snapshot)));
  EXPECT_FALSE(simulation_.run(snapshots_->hold("other-team", snapshot)));
  ASSERT_TRUE(simulation_.run(snapshots_->remove(kTeam, taken)));
  EXPECT_FALSE(simulation_.run(snapshots_->hold(kTeam, snapshot)));
  ASSERT_TRUE(simulation_.run(snapshots_->release(taken)));
  EXPECT_TRUE(node_.snapshots.contains(taken));
  EXPECT_FALSE(snapshots_->used_layers().empty());
  ASSERT_TRUE(simulation_.run(snapshots_->release(taken)));
  EXPECT_FALSE(node_.snapshots.contains(taken));
  EXPECT_TRUE(snapshots_->used_layers().empty());
}

TEST_F(SnapshotsTest, TheMomentOfASandboxGoesWithItsHolder) {
  const std::string id = claim()->id;
  const auto moment = simulation_.run(snapshots_->hold(kTeam, state_ref(id)));
  ASSERT_TRUE(moment) << moment.error().message;
  EXPECT_EQ(node_.snapshots, std::set<std::string>{moment->id});
  EXPECT_FALSE(snapshots_->get(kTeam, moment->id));
  EXPECT_FALSE(simulation_.run(snapshots_->hold("other-team", state_ref(id))));
  ASSERT_TRUE(simulation_.run(snapshots_->release(moment->id)));
  EXPECT_TRUE(node_.snapshots.empty());
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
  ASSERT_EQ(children->sandboxes.size(), 3U);
  for (const Sandbox& child : children->sandboxes) {
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

TEST_F(SnapshotsTest, AnOnlyChildTakesTheMomentItself) {
  const std::string id = claim()->id;
  const auto only = simulation_.run(snapshots_->fork(kTeam, id, {.start = true}));
  ASSERT_TRUE(only) << only.error().message;
  EXPECT_TRUE(node_.requests.at(only->sandboxes.front().id).takes_snapshot);
  EXPECT_TRUE(node_.snapshots.empty());
  const auto two = simulation_.run(snapshots_->fork(kTeam, id, {.count = 2}));
  ASSERT_TRUE(two) << two.error().message;
  for (const Sandbox& child : two->sandboxes) {
    EXPECT_FALSE(node_.requests.at(child.id).takes_snapshot) << "the other one needs it too";
  }
  const auto kept = take(id);
  ASSERT_TRUE(kept) << kept.error().message;
  const auto claimed = simulation_.run(snapshots_->claim(kept->id, {}));
  ASSERT_TRUE(claimed) << claimed.error().message;
  EXPECT_FALSE(node_.requests.at(claimed->sandboxes.front().id).takes_snapshot);
  EXPECT_TRUE(node_.snapshots.contains(kept->id)) << "a snapshot stays for the next";
}

TEST_F(SnapshotsTest, OneCommitMakesAllChildrenDurableBeforeTheirRows) {
  const std::string id = claim()->id;
  const int before = node_.commits;
  node_.fault = [](std::string_view operation) {
    return operation == "commit_disks" ? FakeNode::Fault::kRefused : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(simulation_.run(snapshots_->fork(kTeam, id, {.count = 3})));
  EXPECT_EQ(store_->list_sandboxes()->size(), 1U) << "no row without its disk";
  node_.fault = nullptr;
  node_.uncommitted.clear();
  const auto forked = simulation_.run(snapshots_->fork(kTeam, id, {.count = 3}));
  ASSERT_TRUE(forked) << forked.error().message;
  EXPECT_TRUE(node_.uncommitted.empty());
  EXPECT_EQ(node_.commits, before + 1);
}

TEST_F(SnapshotsTest, AForkLivesAsLongAsItsParentUnlessAsked) {
  const std::string id =
      claim({.ttl_seconds = 60, .hard_ttl_seconds = 600, .idle_ttl_seconds = 30})->id;
  const auto same = simulation_.run(snapshots_->fork(kTeam, id, {.start = true}));
  ASSERT_TRUE(same) << same.error().message;
  const Sandbox& child = same->sandboxes.front();
  EXPECT_EQ(child.ttl_seconds, 60);
  EXPECT_EQ(child.hard_ttl_seconds, 600);
  EXPECT_EQ(child.idle_ttl_seconds, 30);
  EXPECT_EQ(child.hard_expires_at, simulation_.clock.now() + 600'000) << "from its own beginning";
  const auto other =
      simulation_.run(snapshots_->fork(kTeam, id, {.ttl_seconds = 0, .hard_ttl_seconds = 90}));
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->sandboxes.front().ttl_seconds, 0);
  EXPECT_EQ(other->sandboxes.front().hard_ttl_seconds, 90);
  EXPECT_FALSE(simulation_.run(snapshots_->fork(kTeam, id, {.ttl_seconds = 601})));
  EXPECT_TRUE(node_.snapshots.empty());
}

TEST_F(SnapshotsTest, LayersOfSnapshotsAreNeeded) {
  const std::string id = claim()->id;
  ASSERT_TRUE(take(id));
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id)));
  EXPECT_TRUE(sandboxes_->used_layers().contains("layer-1"));
  EXPECT_TRUE(sandboxes_->template_needed("default")) << "it says how their processes run";
  EXPECT_FALSE(sandboxes_->template_needed("other"));
}

TEST_F(SnapshotsTest, TheStartOfATemplateIsNobodysToName) {
  const std::string id = claim()->id;
  const auto start = take(id, {.template_start = true});
  ASSERT_TRUE(start) << start.error().message;
  ASSERT_TRUE(is_template_start(start->id));
  restart();
  EXPECT_TRUE(snapshots_->list_all(kTeam).empty());
  EXPECT_TRUE(snapshots_->list(kTeam, id)->empty());
  EXPECT_FALSE(snapshots_->get(kTeam, start->id));
  EXPECT_FALSE(simulation_.run(snapshots_->remove(kTeam, start->id)));
  EXPECT_FALSE(simulation_.run(snapshots_->hold(kTeam, state_ref(start->id))));
  EXPECT_FALSE(simulation_.run(snapshots_->restore(kTeam, id, start->id, true)));
  EXPECT_FALSE(simulation_.run(snapshots_->claim(start->id, {.team_id = kTeam})));
  ASSERT_EQ(snapshots_->template_starts().size(), 1U);
  ASSERT_TRUE(
      simulation_.run(snapshots_->hold(kTeam, {StateRef::Kind::kTemplateStart, start->id})));
  ASSERT_TRUE(simulation_.run(snapshots_->release(start->id)));
  ASSERT_TRUE(simulation_.run(snapshots_->remove_start(start->id)));
  EXPECT_TRUE(simulation_.run(snapshots_->remove_start(start->id))) << "it is gone";
  EXPECT_TRUE(node_.snapshots.empty());
}

TEST_F(SnapshotsTest, AForkWithAKeyHappensOnceAlsoAcrossARestart) {
  const std::string id = claim()->id;
  const auto fork = [&](std::string body) {
    ForkRequest request{.once = ClaimOnce{.key = "k", .body_sha256 = std::move(body)}};
    request.once->remember = [](const ClaimAnswer& answer) { return answer.sandboxes[0].id; };
    return simulation_.run(snapshots_->fork(kTeam, id, std::move(request)));
  };
  const auto first = fork("b");
  ASSERT_TRUE(first) << first.error().message;
  const std::string child = first->sandboxes[0].id;
  EXPECT_EQ(status(child), SandboxStatus::kPaused);
  restart();
  const std::size_t creates = node_.creates;
  const auto again = fork("b");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->remembered, child);
  EXPECT_EQ(fork("other").error().reason, "idempotency_conflict");
  EXPECT_EQ(node_.creates, creates);
  EXPECT_TRUE(node_.snapshots.empty());
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id)));
  EXPECT_EQ(fork("b")->remembered, child) << "also when the parent is gone";
}

TEST_F(SnapshotsTest, AClaimWithAKeyIsAnsweredAgainWhenItsSnapshotIsGone) {
  const std::string id = claim()->id;
  const std::string snapshot = take(id)->id;
  const auto begin = [&] {
    ClaimRequest request{.once = ClaimOnce{.key = "k", .body_sha256 = "b"}};
    request.once->remember = [](const ClaimAnswer& answer) { return answer.sandboxes[0].id; };
    return simulation_.run(snapshots_->claim(snapshot, std::move(request)));
  };
  const std::string child = begin()->sandboxes[0].id;
  ASSERT_TRUE(simulation_.run(snapshots_->remove(kTeam, snapshot)));
  const auto again = begin();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->remembered, child);
}

TEST_F(SnapshotsTest, ASnapshotWithAKeyIsTakenOnce) {
  const std::string id = claim()->id;
  const auto take_once = [&] {
    SnapshotRequest request{.once = SnapshotOnce{.key = "k", .body_sha256 = "b"}};
    request.once->remember = [](const Snapshot& snapshot) { return snapshot.id; };
    return simulation_.run(snapshots_->create(kTeam, id, std::move(request)));
  };
  const auto first = take_once();
  ASSERT_TRUE(first) << first.error().message;
  restart();
  EXPECT_EQ(take_once()->remembered, first->snapshot.id);
  EXPECT_EQ(node_.snapshots.size(), 1U);
}

TEST_F(SnapshotsTest, ASnapshotThatCameTooLateIsSweptUp) {
  const std::string id = claim()->id;
  scope_->spawn("snapshots", snapshots_->run());
  node_.fault = [](std::string_view operation) {
    return operation == "snapshot"          ? FakeNode::Fault::kAnswerLost
           : operation == "remove_snapshot" ? FakeNode::Fault::kUnreached
                                            : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(take(id));
  EXPECT_FALSE(simulation_.run(snapshots_->fork(kTeam, id, {})));
  EXPECT_EQ(node_.snapshots.size(), 2U);
  node_.fault = nullptr;
  const std::string kept = take(id)->id;
  simulation_.advance_ms(2 * kSnapshotSweepMs);
  EXPECT_EQ(node_.snapshots, std::set<std::string>{kept});
}

TEST_F(SnapshotsTest, AForcedRestoreThatIsKilledLeavesARunningSandbox) {
  const std::string id = claim()->id;
  const std::string snapshot = take(id)->id;
  for (const std::string_view where : {"destroy", "restore", "create"}) {
    for (const auto fault : {FakeNode::Fault::kUnreached, FakeNode::Fault::kAnswerLost}) {
      bool hit = false;
      node_.fault = [&](std::string_view operation) {
        hit = hit || operation == where;
        return hit ? fault : FakeNode::Fault::kNone;  // and nobody answers any more
      };
      EXPECT_FALSE(simulation_.run(snapshots_->restore(kTeam, id, snapshot, true)));
      EXPECT_EQ(store_->find_sandbox(id)->status, SandboxStatus::kRunning) << where;
      node_.fault = nullptr;
      restart();
      EXPECT_EQ(status(id), SandboxStatus::kRunning) << where;
      EXPECT_TRUE(node_.cells.at(id).running) << where;
    }
  }
}

std::vector<std::string> shape(const std::vector<FamilyMember>& members) {
  std::vector<std::string> lines;
  for (const FamilyMember& member : members) {
    lines.push_back(concat(std::string(member.depth, ' '), member.relative.id, " ",
                           member.relative.cause, member.relative.deleted_at ? " deleted" : ""));
  }
  return lines;
}

TEST_F(SnapshotsTest, TreesKeepDeletedAncestorsAsLongAsSomebodyCameFromThem) {
  const auto trees = [&] { return shape(*simulation_.run(snapshots_->lineage().trees(kTeam))); };
  const std::string root = claim()->id;
  simulation_.advance_ms(1);
  const std::string other = claim()->id;
  const std::string snapshot = take(root)->id;
  const std::string child = simulation_.run(snapshots_->claim(snapshot, {}))->sandboxes.front().id;
  const std::string grandchild =
      simulation_.run(snapshots_->fork(kTeam, child, {}))->sandboxes.front().id;
  using Lines = std::vector<std::string>;
  EXPECT_EQ(trees(),
            (Lines{root + " template", " " + snapshot + " snapshot", "  " + child + " claim",
                   "   " + grandchild + " fork", other + " template"}));
  ASSERT_TRUE(simulation_.run(snapshots_->restore(kTeam, root, snapshot, true)));
  ASSERT_TRUE(simulation_.run(snapshots_->remove(kTeam, snapshot)));
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, child)));
  restart();
  const auto tree = simulation_.run(snapshots_->lineage().tree_of(kTeam, grandchild));
  ASSERT_TRUE(tree);
  EXPECT_EQ(shape(*tree), (Lines{root + " template", " " + snapshot + " snapshot deleted",
                                 "  " + child + " claim deleted", "   " + grandchild + " fork"}));
  ASSERT_EQ(tree->front().relative.restores.size(), 1U);
  EXPECT_EQ(tree->front().relative.restores[0].snapshot_id, snapshot);
  EXPECT_TRUE(tree->front().status);
  EXPECT_FALSE((*tree)[2].status);
  EXPECT_FALSE(simulation_.run(snapshots_->lineage().tree_of("other-team", grandchild)));
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, grandchild)));
  EXPECT_EQ(trees(), (Lines{root + " template", other + " template"}))
      << "nobody came from the others any more";
}

}  // namespace
}  // namespace atl::control
