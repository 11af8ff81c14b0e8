// Cells that stand still: pausing, snapshots, restoring.
#include "node/cells.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

using CellStateTest = testing::NodeFixture;

TEST_F(CellStateTest, APausedCellHasItsFilesOnDisk) {
  ASSERT_TRUE(cells_->create(request("a")));
  const int before = pool_.syncs();
  ASSERT_TRUE(cells_->freeze("a"));
  EXPECT_TRUE(*runtime_.is_frozen("a"));
  EXPECT_EQ(pool_.syncs(), before + 1);
}

TEST_F(CellStateTest, ASnapshotLeavesTheCellAsItWas) {
  ASSERT_TRUE(cells_->create(request("a")));
  const auto taken = cells_->snapshot({.id = "a", .snapshot = "snap-1"});
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_GT(taken->stopped_nanoseconds, 0U);
  EXPECT_TRUE(pool_.has_snapshot("snap-1"));
  EXPECT_FALSE(*runtime_.is_frozen("a"));

  ASSERT_TRUE(cells_->freeze("a"));
  ASSERT_TRUE(cells_->snapshot({.id = "a", .snapshot = "snap-2"}));
  EXPECT_TRUE(*runtime_.is_frozen("a")) << "what was paused stays paused";

  ASSERT_TRUE(cells_->destroy({.id = "a", .keep_upper = true}));
  EXPECT_TRUE(cells_->snapshot({.id = "a", .snapshot = "snap-3"})) << "a disk is enough";
}

TEST_F(CellStateTest, AFailedSnapshotThawsTheCell) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->snapshot({.id = "a", .snapshot = "snap-1"}));
  const auto again = cells_->snapshot({.id = "a", .snapshot = "snap-1"});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_FALSE(*runtime_.is_frozen("a"));
  EXPECT_EQ(cells_->snapshot({.id = "b", .snapshot = "snap-2"}).error().code, Code::kNotFound);
}

TEST_F(CellStateTest, ACellBeginsAsASnapshot) {
  ASSERT_TRUE(cells_->create(request("a")));
  CreateRequest child = request("b");
  child.from_snapshot = "snap-1";
  const auto none = cells_->create(child);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().reason, "snapshot_not_found");
  EXPECT_FALSE(has_record("b"));
  ASSERT_TRUE(cells_->snapshot({.id = "a", .snapshot = "snap-1"}));
  ASSERT_TRUE(cells_->create(child));
  EXPECT_TRUE(pool_.has_upper("b"));
  ASSERT_TRUE(cells_->destroy({.id = "a"}));
  EXPECT_TRUE(runtime_.exists("b"));
}

TEST_F(CellStateTest, ACellTakesASnapshotThatOnlyPasses) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->snapshot({.id = "a", .snapshot = "moment", .passing = true}));
  CreateRequest child = request("b");
  child.from_snapshot = "moment";
  child.takes_snapshot = true;
  ASSERT_TRUE(cells_->create(child));
  EXPECT_TRUE(pool_.has_upper("b"));
  EXPECT_FALSE(pool_.has_snapshot("moment"));
  EXPECT_TRUE(cells_->remove_snapshot("moment")) << "whoever cleans up may ask all the same";
  child.id = "c";
  EXPECT_EQ(cells_->create(child).error().reason, "snapshot_not_found");
}

TEST_F(CellStateTest, OnlyADiskAtRestIsRestored) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->snapshot({.id = "a", .snapshot = "snap-1"}));
  const auto running = cells_->restore({.id = "a", .snapshot = "snap-1"});
  ASSERT_FALSE(running);
  EXPECT_EQ(running.error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(pool_.restored().empty());
  ASSERT_TRUE(cells_->destroy({.id = "a", .keep_upper = true}));
  ASSERT_TRUE(cells_->restore({.id = "a", .snapshot = "snap-1"}));
  EXPECT_EQ(pool_.restored(), std::vector<std::string>{"a"});
}

TEST(SnapshotProtocol, RequestsSurviveTheTripAndAreChecked) {
  const auto kind = RequestKind::kRestore;
  const auto decoded = decode_request(encode(kind, {"rs-a", "snap-1", 5U << 20}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->kind, kind);
  EXPECT_EQ(decoded->snapshot.id, "rs-a");
  EXPECT_EQ(decoded->snapshot.snapshot, "snap-1");
  EXPECT_EQ(decoded->snapshot.disk_bytes, 5U << 20);
  for (const char* bad : {"", "..", "a/b", ".x", "A"}) {
    EXPECT_FALSE(decode_request(encode(kind, {"rs-a", bad, 0}))) << bad;
    EXPECT_FALSE(decode_request(encode(kind, {bad, "snap-1", 0}))) << bad;
    EXPECT_FALSE(decode_request(encode_with_id(RequestKind::kRemoveSnapshot, bad))) << bad;
  }
  CreateRequest both{.id = "a",
                     .hostname = "a",
                     .layers = {"base-1"},
                     .existing_upper = true,
                     .from_snapshot = "snap-1"};
  EXPECT_FALSE(decode_request(encode(both)));
  EXPECT_EQ(decode_snapshot(encode_payload(SnapshotAnswer{7}))->stopped_nanoseconds, 7U);
}

}  // namespace
}  // namespace atl::node
