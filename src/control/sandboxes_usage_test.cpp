// Who is asked for what it uses, and how often.
#include <algorithm>

#include "control/limits.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

class UsageTest : public SandboxesTest {
 protected:
  std::vector<std::string> claim_many(std::size_t wanted) {
    options_.max_sandboxes = wanted;
    close();
    open();
    std::vector<std::string> ids;
    while (ids.size() < wanted) {
      const std::size_t count = std::min(wanted - ids.size(), kMaxClaimCount);
      const auto made =
          simulation_.run(sandboxes_->claim_all({.template_name = "default", .count = count}));
      if (!made) {
        ADD_FAILURE() << made.error().message;
        break;
      }
      for (const Sandbox& each : made->sandboxes) {
        ids.push_back(each.id);
      }
    }
    return ids;
  }
  std::size_t asked() const {
    std::size_t sum = 0;
    for (const auto& [id, count] : node_.asked_usage) {
      sum += static_cast<std::size_t>(count);
    }
    return sum;
  }
  void pass_rounds(int count) { simulation_.advance_ms(count * kSampleIntervalMs); }
};

TEST_F(UsageTest, UsageIsSampledAndBounded) {
  const std::string id = claim()->id;
  node_.usages[id] = {.memory_bytes = 7, .memory_total_bytes = 8, .memory_peak_bytes = 9};
  simulation_.advance_ms(46'000);
  const auto samples = simulation_.run(sandboxes_->usage(kTeam, id));
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->size(), 10U);
  EXPECT_EQ(samples->back().memory_peak_bytes, 9U);
  EXPECT_EQ(samples->back().working_set_bytes, 7U);
  EXPECT_EQ(samples->back().limits.process_count, 4096U);
  EXPECT_EQ((*samples)[1].at - (*samples)[0].at, 5'000);
}

TEST_F(UsageTest, OneThatDoesNothingIsAskedLessAndLessUntilItDoes) {
  const std::string id = claim()->id;
  node_.usages[id] = {.cpu_nanoseconds = 1};
  const auto count = [&] { return simulation_.run(sandboxes_->usage(kTeam, id))->size(); };
  simulation_.advance_ms(3'600'000);
  const std::size_t quiet = count();
  EXPECT_LT(quiet, 40U) << "of 720 rounds";
  EXPECT_GT(quiet, 20U);
  {
    const auto use = sandboxes_->use(kTeam, id);
  }
  node_.usages[id] = {.cpu_nanoseconds = 2};
  simulation_.advance_ms(26'000);
  EXPECT_EQ(count(), quiet + 5) << "every round again";
}

TEST_F(UsageTest, ARoundAsksSoManyAndNoMoreThoseInUseFirst) {
  constexpr std::size_t kLive = 2 * kMaxSampledAtOnce + 10;
  const std::vector<std::string> ids = claim_many(kLive);
  ASSERT_EQ(ids.size(), kLive);
  const auto busy = sandboxes_->use(kTeam, ids.front());
  node_.asked_usage.clear();
  simulation_.advance_ms(kSampleIntervalMs);
  EXPECT_EQ(asked(), kMaxSampledAtOnce);
  simulation_.advance_ms(2 * kSampleIntervalMs);
  EXPECT_EQ(asked(), 3 * kMaxSampledAtOnce);
  EXPECT_EQ(node_.asked_usage[ids.front()], 3) << "every round";
  EXPECT_EQ(node_.asked_usage.size(), kLive) << "nobody is left out for ever";
}

TEST_F(UsageTest, ThoseInUseDoNotKeepTheOthersFromTheirTurn) {
  constexpr std::size_t kInUse = kMaxSampledAtOnce + 50;
  const std::vector<std::string> ids = claim_many(2 * kInUse);
  ASSERT_EQ(ids.size(), 2 * kInUse);
  std::vector<decltype(sandboxes_->use(kTeam, ids[0]))> uses;
  for (std::size_t i = 0; i < kInUse; ++i) {
    uses.push_back(sandboxes_->use(kTeam, ids[i]));
  }
  pass_rounds(10);  // all have had their first turn
  node_.asked_usage.clear();
  pass_rounds(10);
  EXPECT_EQ(asked(), 10 * kMaxSampledAtOnce);
  EXPECT_EQ(node_.asked_usage.size(), ids.size()) << "nobody is left out";
  for (std::size_t i = 0; i < kInUse; ++i) {
    EXPECT_GE(node_.asked_usage[ids[i]], 5) << "every second round at least";
  }
}

TEST_F(UsageTest, OfThoseThatWereUsedTheOneThatWaitedLongestIsNext) {
  const std::vector<std::string> ids = claim_many(2 * kMaxSampledAtOnce);
  ASSERT_EQ(ids.size(), 2 * kMaxSampledAtOnce);
  node_.asked_usage.clear();
  for (int round = 0; round < 4; ++round) {
    for (const std::string& id : ids) {  // always in the same order
      const auto use = sandboxes_->use(kTeam, id);
      simulation_.advance_ms(1);
    }
    simulation_.advance_ms(kSampleIntervalMs - static_cast<std::int64_t>(ids.size()));
  }
  for (const std::string& id : ids) {
    EXPECT_EQ(node_.asked_usage[id], 2) << "every second round";
  }
}

TEST_F(UsageTest, ThoseThatCannotBeAskedDoNotKeepTheOthersFromTheirTurn) {
  const std::vector<std::string> ids = claim_many(2 * kMaxSampledAtOnce);
  ASSERT_EQ(ids.size(), 2 * kMaxSampledAtOnce);
  node_.asked_usage.clear();
  std::size_t refused = 0;
  node_.fault = [&](std::string_view operation) {
    return operation == "usage" && refused++ < kMaxSampledAtOnce ? FakeNode::Fault::kRefused
                                                                 : FakeNode::Fault::kNone;
  };
  pass_rounds(2);
  EXPECT_EQ(node_.asked_usage.size(), kMaxSampledAtOnce) << "the other half";
  pass_rounds(1);
  EXPECT_EQ(node_.asked_usage.size(), 2 * kMaxSampledAtOnce);
}

TEST_F(UsageTest, ThoseThatWorkComeBeforeThoseThatSleep) {
  const std::vector<std::string> ids = claim_many(4 * kMaxSampledAtOnce);
  ASSERT_EQ(ids.size(), 4 * kMaxSampledAtOnce);
  const std::string& working = ids.back();
  for (std::uint64_t round = 1; round <= 20; ++round) {
    node_.usages[working] = {.cpu_nanoseconds = round};
    pass_rounds(1);
    if (round == 10) {
      node_.asked_usage.clear();
    }
  }
  EXPECT_EQ(node_.asked_usage[working], 10) << "every round";
}

}  // namespace
}  // namespace atl::control
