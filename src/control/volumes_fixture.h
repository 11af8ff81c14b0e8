// Volumes on a fake node, with sandboxes that mount them, for tests.
#pragma once

#include "base/strings.h"
#include "control/limits.h"
#include "control/sandboxes_fixture.h"
#include "control/snapshots.h"
#include "control/volumes.h"

namespace atl::control {

class VolumesTest : public SandboxesTest {
 protected:
  void SetUp() override {
    SandboxesTest::SetUp();
    begin();
  }
  void TearDown() override {
    volumes_.reset();
    cells_.reset();
    SandboxesTest::TearDown();
  }
  void begin() {
    cells_ = std::make_unique<VolumeCells>(reactor_, node_, *sandboxes_);
    volumes_ = std::make_unique<Volumes>(StoreAccess{*store_, nullptr}, node_, *sandboxes_, *cells_,
                                         simulation_.clock);
    const auto started = simulation_.run(volumes_->start());
    ASSERT_TRUE(started) << started.error().message;
  }
  // Everything in memory is gone; rows, cells and disks stay.
  void crash() {
    volumes_.reset();
    cells_.reset();
    close();
    node_.fault = nullptr;
    open();
    begin();
  }
  std::string make(VolumeCreate request = {}) {
    const auto made = simulation_.run(volumes_->create(kTeam, std::move(request)));
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->volume.id : "";
  }
  Result<Sandbox> claim_with(const std::string& volume, bool read_only = false) {
    return claim({.mounts = {{volume, "/data", read_only}}});
  }
  Result<VolumeView> get(const std::string& id) {
    return simulation_.run(volumes_->get(kTeam, id));
  }
  Result<> remove(const std::string& id, bool force = false) {
    return simulation_.run(volumes_->remove(kTeam, id, force));
  }
  // As for a child, of whatever sandbox.
  Result<MountLists> fork_mounts(const std::string& volume) {
    const AtMoment now = [](std::function<Task<>()> also) { return also(); };
    return simulation_.run(volumes_->fork(kTeam, std::vector<Mount>{{volume, "/data"}}, 1, now));
  }
  // The operation fails this way once, the next time it is asked for.
  void fail_once(std::string operation, FakeNode::Fault fault) {
    node_.fault = [operation = std::move(operation), fault,
                   done = false](std::string_view asked) mutable {
      if (done || asked != operation) {
        return FakeNode::Fault::kNone;
      }
      done = true;
      return fault;
    };
  }
  std::size_t rows() { return store_->list_volumes()->size(); }

  io::Reactor reactor_;
  std::unique_ptr<VolumeCells> cells_;
  std::unique_ptr<Volumes> volumes_;
};

}  // namespace atl::control
