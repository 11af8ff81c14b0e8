#include "node/cell_records.h"

#include "base/strings.h"
#include "node/limits.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

using StoredCellsTest = testing::NodeFixture;

constexpr const char* kBootId = "5f0c1a52-8d0e-4c4b-9a43-0123456789ab";

TEST_F(StoredCellsTest, ARecordSaysWhenItWasWritten) {
  ASSERT_TRUE(cells_->create(request("a")));
  const auto stored = records().load();
  ASSERT_TRUE(stored);
  ASSERT_EQ(stored->size(), 1U);
  EXPECT_EQ(stored->front().boot_id, *read_boot_id());
}

TEST(CellRecordsTest, RecordsSurviveTheTrip) {
  const StoredCell cell{.id = "a",
                        .state = StoredCell::State::kRunning,
                        .pid = 4711,
                        .start_time = 1ULL << 40,
                        .uid_base = kFirstHostId,
                        .fresh_upper = true,
                        .boot_id = kBootId};
  const auto back = parse_record("a", format_record(cell));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(format_record(*back), format_record(cell));
  EXPECT_EQ(back->boot_id, kBootId);
}

// Whether it is written over the old one or takes its place: nothing of the old one is left.
TEST_F(StoredCellsTest, ARecordIsReplacedCompletely) {
  StoredCell large{.id = "a", .uid_base = kFirstHostId};
  for (int i = 0; i < 60; ++i) {
    large.layers.push_back(concat("layer-with-a-rather-long-name-", i));
  }
  const StoredCell small{.id = "a", .pid = 1, .uid_base = kFirstHostId, .layers = {"base"}};
  const StoredCell smaller{.id = "a", .uid_base = kFirstHostId};
  for (const StoredCell* const cell : std::initializer_list<const StoredCell*>{
           &small, &smaller, &small, &large, &smaller, &large, &small}) {
    ASSERT_TRUE(records().put(*cell));
    const auto stored = records().load();
    ASSERT_TRUE(stored);
    ASSERT_EQ(stored->size(), 1U);
    EXPECT_EQ(format_record(stored->front()), format_record(*cell));
  }
}

TEST(CellRecordsTest, DamagedRecordsAreRefused) {
  const std::string good = format_record({.id = "a"});
  for (std::size_t size = 0; size < good.size() - 1; ++size) {
    EXPECT_FALSE(parse_record("a", good.substr(0, size))) << size;
  }
  for (const char* text :
       {"state gone\n", "pid -1\n", "pid 99999999999\n", "color red\n", "boot_id 5f0c\n"}) {
    EXPECT_FALSE(parse_record("a", text)) << text;
  }
}

}  // namespace
}  // namespace atl::node
