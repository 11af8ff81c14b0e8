#include "node/cells.h"

#include <atomic>
#include <thread>

#include "base/fd.h"
#include "base/strings.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

using CellsTest = testing::NodeFixture;

TEST_F(CellsTest, CreateMakesTheWholeCell) {
  const auto info = cells_->create(request("a"));
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_TRUE(info->running);
  EXPECT_EQ(info->guest_socket, socket("a"));
  EXPECT_TRUE(std::filesystem::is_socket(socket("a")));
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_EQ(runtime_.spec("a").lower_dirs,
            (std::vector<std::string>{"/layers/base-2", "/layers/base-1"}));
  EXPECT_EQ(runtime_.spec("a").upper_dir, "/uppers/a");
  const auto stored = records().load();
  ASSERT_TRUE(stored);
  ASSERT_EQ(stored->size(), 1U);
  EXPECT_EQ((*stored)[0].state, StoredCell::State::kRunning);
  EXPECT_EQ((*stored)[0].uid_base, runtime_.spec("a").uid_base);
}

TEST_F(CellsTest, CellsNeverShareIds) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->create(request("b")));
  EXPECT_NE(runtime_.spec("a").uid_base, runtime_.spec("b").uid_base);
}

TEST_F(CellsTest, ASecondCreateIsRefused) {
  ASSERT_TRUE(cells_->create(request("a")));
  const auto again = cells_->create(request("a"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_TRUE(runtime_.exists("a"));
}

TEST_F(CellsTest, AMissingLayerIsRefusedBeforeAnythingIsMade) {
  CreateRequest wrong = request("a");
  wrong.layers = {"base-1", "nothing"};
  const auto made = cells_->create(wrong);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kNotFound);
  EXPECT_NE(made.error().message.find("nothing"), std::string::npos);
  EXPECT_FALSE(has_record("a"));
  EXPECT_FALSE(pool_.has_upper("a"));
}

TEST_F(CellsTest, AFailedCreateLeavesNothing) {
  runtime_.fail_create("a");
  ASSERT_FALSE(cells_->create(request("a")));
  EXPECT_FALSE(has_record("a"));
  EXPECT_FALSE(pool_.has_upper("a"));
  EXPECT_FALSE(std::filesystem::exists(socket("a")));
  EXPECT_TRUE(cells_->list("", 10).empty());
  EXPECT_TRUE(uids_->close());  // its range was given back
}

TEST_F(CellsTest, AFailedContinueKeepsTheDisk) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->destroy({.id = "a", .keep_upper = true}));
  runtime_.fail_create("a");
  CreateRequest again = request("a");
  again.existing_upper = true;
  ASSERT_FALSE(cells_->create(again));
  EXPECT_TRUE(pool_.has_upper("a"));
}

TEST_F(CellsTest, ContinuingNeedsADiskAndAFreshOneNeedsNone) {
  CreateRequest on_existing = request("a");
  on_existing.existing_upper = true;
  EXPECT_EQ(cells_->create(on_existing).error().code, Code::kNotFound);
  ASSERT_TRUE(pool_.create_upper("a", 0));
  EXPECT_EQ(cells_->create(request("a")).error().code, Code::kAlreadyExists);
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_TRUE(cells_->create(on_existing));
}

TEST_F(CellsTest, APoolWithoutQuotaCanContinueAndChangeLimits) {
  CreateRequest limited = request("a");
  limited.limits.disk_bytes = 64ULL << 20;
  ASSERT_TRUE(cells_->create(limited));
  EXPECT_TRUE(cells_->set_limits("a", {.memory_bytes = 5, .disk_bytes = 32ULL << 20}));
  ASSERT_TRUE(cells_->destroy({.id = "a", .keep_upper = true}));
  limited.existing_upper = true;
  const auto again = cells_->create(limited);
  EXPECT_TRUE(again) << again.error().message;
}

TEST_F(CellsTest, AFullDiskHasRoomUntilItsCellRuns) {
  pool_.set_status({.quota = true, .total_bytes = 100ULL << 30, .free_bytes = 50ULL << 30});
  ASSERT_TRUE(pool_.create_upper("a", 0));
  CreateRequest again = request("a");
  again.existing_upper = true;
  again.limits.disk_bytes = 64ULL << 20;
  runtime_.fail_create("a");
  ASSERT_FALSE(cells_->create(again));
  const std::uint64_t widened = (64ULL << 20) + kMountRoomBytes;
  EXPECT_EQ(pool_.limits(), std::vector<std::uint64_t>{widened}) << "before the cell is made";
  runtime_.succeed_create("a");
  ASSERT_TRUE(cells_->create(again));
  EXPECT_EQ(pool_.limits(), (std::vector<std::uint64_t>{widened, widened, 64ULL << 20}));
}

TEST_F(CellsTest, AFullPoolMakesNoNewDisks) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->destroy({.id = "a", .keep_upper = true}));
  pool_.set_status({.total_bytes = 100ULL << 30, .free_bytes = kMaxPoolReserveBytes - 1});
  const auto refused = cells_->create(request("b"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().reason, "disk_full");
  EXPECT_FALSE(has_record("b"));
  CreateRequest again = request("a");
  again.existing_upper = true;
  EXPECT_TRUE(cells_->create(again)) << "an old disk can be used to make room";
  pool_.set_status({.total_bytes = 100ULL << 30, .free_bytes = kMaxPoolReserveBytes});
  EXPECT_TRUE(cells_->create(request("b")));
}

TEST_F(CellsTest, DestroyRemovesEverythingAndIsIdempotent) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->destroy({.id = "a"}));
  EXPECT_FALSE(runtime_.exists("a"));
  EXPECT_FALSE(pool_.has_upper("a"));
  EXPECT_FALSE(has_record("a"));
  EXPECT_FALSE(std::filesystem::exists(socket("a")));
  EXPECT_TRUE(cells_->destroy({.id = "a"}));
  EXPECT_TRUE(cells_->destroy({.id = "never-was"}));
  EXPECT_TRUE(cells_->list("", 10).empty());
  EXPECT_TRUE(uids_->close());
}

TEST_F(CellsTest, ADestroyThatFailsCanBeRepeated) {
  ASSERT_TRUE(cells_->create(request("a")));
  runtime_.get_stuck("a");
  EXPECT_FALSE(cells_->destroy({.id = "a"}));
  EXPECT_TRUE(has_record("a"));
  EXPECT_TRUE(pool_.has_upper("a"));
  runtime_.get_unstuck("a");
  EXPECT_TRUE(cells_->destroy({.id = "a"}));
  EXPECT_FALSE(has_record("a"));
  EXPECT_TRUE(uids_->close());
}

TEST_F(CellsTest, OperationsNeedARunningCell) {
  EXPECT_EQ(cells_->freeze("a").error().code, Code::kNotFound);
  EXPECT_EQ(cells_->usage("a").error().code, Code::kNotFound);
  ASSERT_TRUE(cells_->create(request("a")));
  EXPECT_TRUE(cells_->freeze("a"));
  EXPECT_TRUE(*runtime_.is_frozen("a"));
  EXPECT_TRUE(cells_->thaw("a"));
  EXPECT_FALSE(*runtime_.is_frozen("a"));
  EXPECT_TRUE(cells_->set_limits("a", {.memory_bytes = 5}));
  EXPECT_EQ(runtime_.spec("a").limits.memory_bytes, 5U);
  const auto usage = cells_->usage("a");
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->memory_bytes, 11U);
  EXPECT_EQ(usage->disk_bytes, 14U);
}

TEST_F(CellsTest, ListComesInPages) {
  for (const char* id : {"c", "a", "b"}) {
    ASSERT_TRUE(cells_->create(request(id)));
  }
  const auto first = cells_->list("", 2);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].id, "a");
  const auto second = cells_->list(first.back().id, 2);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].id, "c");
}

TEST_F(CellsTest, ConcurrentCreatesAndDestroysStayConsistent) {
  std::atomic<int> made{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 25; ++round) {
          // Half of the ids are shared by all threads.
          const std::string id =
              round % 2 == 0 ? concat("shared-", round) : concat("own-", thread, "-", round);
          if (cells_->create(request(id))) {
            ++made;
          }
          if (round % 4 == 3) {
            EXPECT_TRUE(cells_->destroy({.id = id}));
          }
        }
      });
    }
  }
  EXPECT_EQ(made, 13 + 8 * 12);  // a shared id is created once
  EXPECT_EQ(cells_->list("", 1000).size(), runtime_.count());
  EXPECT_TRUE(cells_->stop());
  EXPECT_EQ(runtime_.count(), 0U);
  EXPECT_TRUE(uids_->close());
}

TEST_F(CellsTest, StopEndsAllAndKeepsDisks) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->create(request("b")));
  ASSERT_TRUE(cells_->stop());
  EXPECT_EQ(runtime_.count(), 0U);
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_FALSE(has_record("a"));
  EXPECT_FALSE(std::filesystem::exists(socket("b")));
}

// --- recovery ---

TEST_F(CellsTest, RecoveryAdoptsWhatStillRuns) {
  ASSERT_TRUE(cells_->create(request("a")));
  const std::uint32_t uid_base = runtime_.spec("a").uid_base;
  crash();
  start();
  EXPECT_EQ(summary_.adopted, 1U);
  ASSERT_EQ(cells_->list("", 10).size(), 1U);
  EXPECT_TRUE(cells_->list("", 10)[0].running);
  EXPECT_TRUE(std::filesystem::exists(socket("a")));
  ASSERT_TRUE(cells_->create(request("b")));
  EXPECT_NE(runtime_.spec("b").uid_base, uid_base);
  EXPECT_TRUE(cells_->destroy({.id = "a"}));
  EXPECT_FALSE(runtime_.exists("a"));
}

TEST_F(CellsTest, RecoveryEndsWhatItCannotWatch) {
  ASSERT_TRUE(cells_->create(request("a")));
  const std::uint32_t uid_base = runtime_.spec("a").uid_base;
  crash();
  runtime_.become_unwatchable("a");
  start();
  EXPECT_EQ(summary_.adopted, 0U);
  EXPECT_EQ(summary_.dead, 1U);
  EXPECT_EQ(summary_.failed, 0U);
  EXPECT_FALSE(runtime_.exists("a"));
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_TRUE(uids_->take_exactly(uid_base)) << "its range is free";
  uids_->give_back(uid_base);
  EXPECT_TRUE(cells_->destroy({.id = "a"}));
}

TEST_F(CellsTest, RecoveryCleansUpWhatDiedMeanwhile) {
  ASSERT_TRUE(cells_->create(request("a")));
  crash();
  runtime_.die("a");
  start();
  EXPECT_EQ(summary_.dead, 1U);
  EXPECT_FALSE(runtime_.exists("a"));
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_FALSE(std::filesystem::exists(socket("a")));
  ASSERT_EQ(cells_->list("", 10).size(), 1U);
  EXPECT_FALSE(cells_->list("", 10)[0].running);
  CreateRequest again = request("a");
  again.existing_upper = true;
  EXPECT_TRUE(cells_->create(again));
}

StoredCell cut_short(const std::string& id, const std::string& boot_id) {
  return {.id = id, .uid_base = kFirstHostId, .fresh_upper = true, .boot_id = boot_id};
}
constexpr const char* kEarlierBoot = "5f0c1a52-8d0e-4c4b-9a43-0123456789ab";

// The node was killed at each step of a create in turn.
TEST_F(CellsTest, RecoveryUndoesACreateThatWasCutShort) {
  crash();
  ASSERT_TRUE(records().put(cut_short("a", *read_boot_id())));
  start();
  EXPECT_EQ(summary_.undone, 1U);
  EXPECT_FALSE(has_record("a"));

  crash();
  ASSERT_TRUE(records().put(cut_short("a", *read_boot_id())));
  ASSERT_TRUE(pool_.create_upper("a", 0));
  ASSERT_TRUE(runtime_.create({.id = "a"}));  // running, but its record does not say so yet
  start();
  EXPECT_EQ(summary_.undone, 1U);
  EXPECT_FALSE(has_record("a"));
  EXPECT_FALSE(pool_.has_upper("a"));
  EXPECT_FALSE(runtime_.exists("a"));
  EXPECT_TRUE(uids_->close());
}

TEST_F(CellsTest, RecoveryKeepsTheDiskOfAContinueThatWasCutShort) {
  crash();
  ASSERT_TRUE(pool_.create_upper("a", 0));
  ASSERT_TRUE(records().put({.id = "a", .uid_base = kFirstHostId, .fresh_upper = false}));
  start();
  EXPECT_EQ(summary_.dead, 1U);
  EXPECT_TRUE(pool_.has_upper("a"));
}

// The power was cut after the answer, before the record that says "running" was written back.
TEST_F(CellsTest, RecoveryKeepsTheDiskOfACreateOfAnEarlierBoot) {
  for (const char* const boot_id : {kEarlierBoot, ""}) {  // or of a node that did not write it yet
    crash();
    ASSERT_TRUE(pool_.create_upper("a", 0));
    ASSERT_TRUE(records().put(cut_short("a", boot_id)));
    start();
    EXPECT_EQ(summary_.dead, 1U);
    EXPECT_EQ(summary_.undone, 0U);
    EXPECT_TRUE(pool_.has_upper("a"));
    ASSERT_EQ(cells_->list("", 10).size(), 1U) << "control must hear of it";
    EXPECT_FALSE(cells_->list("", 10)[0].running);
    crash();
    start();
    EXPECT_TRUE(pool_.has_upper("a")) << "also at the next start";
    CreateRequest again = request("a");
    again.existing_upper = true;
    EXPECT_TRUE(cells_->create(again));
    EXPECT_TRUE(cells_->destroy({.id = "a"}));
    EXPECT_FALSE(pool_.has_upper("a"));
  }
}

TEST_F(CellsTest, RecoveryUndoesWhatAnEarlierBootLeftToNobody) {
  crash();
  ASSERT_TRUE(records().put(cut_short("a", kEarlierBoot)));  // it has no disk yet
  ASSERT_TRUE(pool_.create_upper("build-1", 0));
  ASSERT_TRUE(records().put(cut_short("build-1", kEarlierBoot)));
  start();
  EXPECT_EQ(summary_.undone, 2U);
  EXPECT_FALSE(has_record("a"));
  EXPECT_FALSE(has_record("build-1"));
  EXPECT_FALSE(pool_.has_upper("build-1"));
}

TEST_F(CellsTest, RecoveryRemovesCellsWithoutARecordButNotTheirDisks) {
  crash();
  ASSERT_TRUE(pool_.create_upper("stray", 0));
  ASSERT_TRUE(runtime_.create({.id = "stray"}));
  start();
  EXPECT_EQ(summary_.unrecorded, 1U);
  EXPECT_FALSE(runtime_.exists("stray"));
  EXPECT_TRUE(pool_.has_upper("stray"));
}

TEST_F(CellsTest, RecoverySurvivesDamagedRecords) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->create(request("b")));
  crash();
  ASSERT_TRUE(replace_file(directory_ + "/cells/a", "state runn", {}));
  ASSERT_TRUE(replace_file(directory_ + "/cells/b.tmp1-2", "half", {}));
  start();
  EXPECT_EQ(summary_.adopted, 1U);
  EXPECT_EQ(summary_.dead, 1U);
  EXPECT_FALSE(runtime_.exists("a"));
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/cells/b.tmp1-2"));
}

TEST_F(CellsTest, ACellThatCannotBeEndedKeepsItsIdsAndRecord) {
  ASSERT_TRUE(cells_->create(request("a")));
  const std::uint32_t uid_base = runtime_.spec("a").uid_base;
  crash();
  runtime_.die("a");
  runtime_.get_stuck("a");
  start();
  EXPECT_GE(summary_.failed, 1U);
  EXPECT_TRUE(has_record("a"));
  EXPECT_FALSE(uids_->take_exactly(uid_base));
}

}  // namespace
}  // namespace atl::node
