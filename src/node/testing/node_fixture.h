// Cells over fakes in a temporary directory, which can "crash" and start again.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "node/cells.h"
#include "node/event_feed.h"
#include "node/testing/fake_pool.h"
#include "node/testing/fake_runtime.h"

namespace atl::node::testing {

class NodeFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-node-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    for (const char* part : {"/cells", "/guest", "/uids"}) {
      ASSERT_EQ(::mkdir((directory_ + part).c_str(), 0700), 0);
    }
    start();
  }
  void TearDown() override {
    crash();
    std::filesystem::remove_all(directory_);
  }

  // Like a new node process on the same data.
  void start() {
    auto uids = UidRanges::open({.claims_dir = directory_ + "/uids",
                                 .data_dir = directory_,
                                 .used_blocks = [] { return std::set<std::uint32_t>{}; }});
    ASSERT_TRUE(uids) << uids.error().message;
    uids_ = *std::move(uids);
    auto cells = Cells::open({.runtime = runtime_,
                              .pool = pool_,
                              .uids = *uids_,
                              .records = records(),
                              .socket_dir = directory_ + "/guest",
                              .socket_uid = ::geteuid(),
                              .socket_gid = ::getegid(),
                              .on_died = [this](const std::string& id) {
                                events_.publish({Event::Kind::kCellDied, id});
                              }});
    ASSERT_TRUE(cells) << cells.error().message;
    cells_ = *std::move(cells);
    auto summary = cells_->recover();
    ASSERT_TRUE(summary) << summary.error().message;
    summary_ = *summary;
  }
  // Everything in memory is gone; cells, disks, records and sockets stay.
  void crash() {
    cells_.reset();
    uids_.reset();
  }

  static CreateRequest request(const std::string& id) {
    return {.id = id, .hostname = "box", .layers = {"base-2", "base-1"}};
  }
  CellRecords records() const { return CellRecords{directory_ + "/cells"}; }
  bool has_record(const std::string& id) const {
    return std::filesystem::exists(directory_ + "/cells/" + id);
  }
  std::string socket(const std::string& id) const { return directory_ + "/guest/" + id + ".sock"; }

  std::string directory_;
  FakeRuntime runtime_;
  FakePool pool_;
  EventFeed events_;
  std::unique_ptr<UidRanges> uids_;
  std::unique_ptr<Cells> cells_;
  RecoverySummary summary_;
};

}  // namespace atl::node::testing
