#include "node/uid_ranges.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/fd.h"

namespace atl::node {
namespace {

class UidRangesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-uids-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    for (const char* part : {"/claims", "/one", "/two"}) {
      ASSERT_EQ(::mkdir((directory_ + part).c_str(), 0700), 0);
    }
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<UidRanges> open(const std::string& name, std::set<std::uint32_t> used = {}) {
    auto ranges = UidRanges::open({.claims_dir = directory_ + "/claims",
                                   .data_dir = directory_ + "/" + name,
                                   .used_blocks = [used] { return used; }});
    EXPECT_TRUE(ranges) << ranges.error().message;
    return ranges ? *std::move(ranges) : nullptr;
  }
  // What a living installation holds.
  Fd lock(const std::string& name) const {
    Fd fd{::open((directory_ + "/" + name + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    EXPECT_EQ(::flock(fd.get(), LOCK_EX | LOCK_NB), 0);
    return fd;
  }
  std::string claim(std::uint32_t block) const {
    return read_file(directory_ + "/claims/" + std::to_string(block)).value_or("");
  }

  std::string directory_;
};

TEST_F(UidRangesTest, SlotsAreInRangeAndNeverOverlap) {
  const auto ranges = open("one");
  std::set<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < 3 * kSlotsPerBlock; ++i) {
    const auto base = ranges->take();
    ASSERT_TRUE(base) << base.error().message;
    EXPECT_GE(*base, kFirstHostId);
    EXPECT_LE(*base, 0xF0000000U - kIdsPerSlot);
    EXPECT_TRUE(seen.insert(*base).second);
  }
  std::uint32_t before = 0;
  for (const std::uint32_t base : seen) {
    EXPECT_GE(base - before, kIdsPerSlot);
    before = base;
  }
}

// How Linux finds a user: kernel/user.c.
TEST_F(UidRangesTest, TheKernelFindsTheUsersOfSandboxesInChainsOfEqualLength) {
  const auto ranges = open("one");
  constexpr std::uint32_t kChains = 128;
  for (const std::uint32_t user : {0U, 1000U}) {
    std::map<std::uint32_t, unsigned> chains;
    for (std::uint32_t i = 0; i < kChains; ++i) {
      const std::uint32_t uid = ranges->take().value() + user;
      ++chains[((uid >> 7) + uid) % kChains];
    }
    for (const auto& [chain, length] : chains) {
      EXPECT_LE(length, 4U) << "of chain " << chain;
    }
  }
}

TEST_F(UidRangesTest, ACellOfAnEarlierBuildKeepsItsIdsToItself) {
  const auto ranges = open("one");
  const std::uint32_t old_base = kFirstHostId + 3 * kIdsPerSlot;
  ASSERT_TRUE(ranges->take_exactly(old_base));
  EXPECT_TRUE(ranges->take_exactly(old_base + kIdsPerSlot)) << "its neighbour";
  EXPECT_FALSE(ranges->take_exactly(old_base + 1));
  for (std::uint32_t i = 0; i < kSlotsPerBlock; ++i) {
    const std::uint32_t base = ranges->take().value();
    EXPECT_TRUE(base + kIdsPerSlot <= old_base || base >= old_base + 2 * kIdsPerSlot) << base;
  }
  ranges->give_back(old_base);
  EXPECT_TRUE(ranges->take_exactly(old_base));
}

TEST_F(UidRangesTest, TwoInstallationsNeverOverlap) {
  const Fd lock_one = lock("one");
  const Fd lock_two = lock("two");
  const auto one = open("one");
  const auto two = open("two");
  std::set<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < 2 * kSlotsPerBlock; ++i) {
    for (UidRanges* ranges : {one.get(), two.get()}) {
      const auto base = ranges->take();
      ASSERT_TRUE(base) << base.error().message;
      EXPECT_TRUE(seen.insert(*base).second);
    }
  }
}

TEST_F(UidRangesTest, AFreedSlotIsTheLastToBeUsedAgain) {
  const auto ranges = open("one");
  const auto first = ranges->take();
  ASSERT_TRUE(first);
  ranges->give_back(*first);
  for (std::uint32_t i = 1; i < kSlotsPerBlock; ++i) {
    const auto next = ranges->take();
    ASSERT_TRUE(next);
    EXPECT_NE(*next, *first);
  }
  const auto again = ranges->take();
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *first);
}

TEST_F(UidRangesTest, ARestartFindsItsOwnBlocksAndKeepsWhatRuns) {
  std::uint32_t base = 0;
  {
    const auto ranges = open("one");
    base = ranges->take().value();
  }
  const auto ranges = open("one");
  ASSERT_TRUE(ranges->take_exactly(base));
  EXPECT_FALSE(ranges->take_exactly(base));
  for (std::uint32_t i = 1; i < kSlotsPerBlock; ++i) {
    EXPECT_NE(ranges->take().value(), base);
  }
  EXPECT_EQ(claim(1), "");  // all of it from the block it had
}

TEST_F(UidRangesTest, AStaleClaimIsTakenOver) {
  open("one").reset();
  ASSERT_EQ(claim(0), directory_ + "/one\n");
  const auto two = open("two");
  EXPECT_EQ(claim(0), directory_ + "/two\n");
}

TEST_F(UidRangesTest, AClaimOfALivingInstallationIsRespected) {
  open("one").reset();
  const Fd held = lock("one");
  const auto two = open("two");
  EXPECT_EQ(claim(0), directory_ + "/one\n");
  EXPECT_EQ(claim(1), directory_ + "/two\n");
}

TEST_F(UidRangesTest, ABlockWithProcessesIsRespectedEvenUnclaimed) {
  open("one").reset();
  const auto two = open("two", {0, 1});
  EXPECT_EQ(claim(0), directory_ + "/one\n");
  EXPECT_EQ(claim(1), "");
  EXPECT_EQ(claim(2), directory_ + "/two\n");
}

TEST_F(UidRangesTest, ARunningCellOfALostClaimGetsItsBlockBackUnlessTaken) {
  const std::uint32_t in_block_5 = kFirstHostId + 5 * kIdsPerBlock;
  const auto one = open("one");
  EXPECT_TRUE(one->take_exactly(in_block_5));
  EXPECT_EQ(claim(5), directory_ + "/one\n");
  const auto two = open("two", {0, 5});
  EXPECT_FALSE(two->take_exactly(in_block_5 + kIdsPerSlot));
  EXPECT_FALSE(two->take_exactly(1000));
  EXPECT_FALSE(two->take_exactly(in_block_5 + 1));
}

TEST_F(UidRangesTest, WhenEverythingIsTakenItSaysSo) {
  std::set<std::uint32_t> all;
  for (std::uint32_t block = 0; block < kBlockCount; ++block) {
    all.insert(block);
  }
  const auto ranges = UidRanges::open({.claims_dir = directory_ + "/claims",
                                       .data_dir = directory_ + "/one",
                                       .used_blocks = [all] { return all; }});
  ASSERT_FALSE(ranges);
  EXPECT_EQ(ranges.error().code, Code::kResourceExhausted);
}

TEST_F(UidRangesTest, CloseReleasesTheClaims) {
  const auto ranges = open("one");
  const auto base = ranges->take().value();
  ranges->give_back(base);
  ASSERT_TRUE(ranges->close());
  EXPECT_EQ(claim(0), "");
}

TEST_F(UidRangesTest, CloseKeepsTheClaimOfABlockInUse) {
  const auto ranges = open("one");
  ASSERT_TRUE(ranges->take());
  ASSERT_TRUE(ranges->take_exactly(kFirstHostId + 5 * kIdsPerBlock));
  ranges->give_back(kFirstHostId + 5 * kIdsPerBlock);
  EXPECT_TRUE(ranges->close());
  EXPECT_EQ(claim(0), directory_ + "/one\n");
  EXPECT_EQ(claim(5), "");
}

TEST(UidScan, TheHostItselfUsesNoBlockOfOurs) {
  // Sandboxes of an Atoll that runs beside this test may be there; the scan itself must work.
  EXPECT_TRUE(scan_used_blocks());
}

}  // namespace
}  // namespace atl::node
