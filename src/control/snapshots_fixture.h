// Snapshots on a manual loop with a fake node and a real store, for tests.
#pragma once

#include "control/sandboxes_fixture.h"
#include "control/snapshots.h"

namespace atl::control {

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
    auto created = simulation_.run(snapshots_->create(kTeam, id, std::move(request)));
    if (!created) {
      return fail(std::move(created).error());
    }
    EXPECT_FALSE(created->remembered);
    return std::move(created->snapshot);
  }

  std::unique_ptr<Snapshots> snapshots_;
};

}  // namespace atl::control
