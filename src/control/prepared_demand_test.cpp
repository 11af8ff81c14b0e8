#include "control/prepared_demand.h"

#include <gtest/gtest.h>

#include <cmath>

#include "control/limits.h"

namespace atl::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DemandTest : public testing::Test {
 protected:
  void claims(int count, Duration apart) {
    for (int i = 0; i < count; ++i) {
      demand_.note(now_);
      now_ += apart;
    }
  }
  Demand demand_;
  Instant now_{Duration{seconds{1000}}};
};

TEST_F(DemandTest, FollowsASteadyRate) {
  claims(500, milliseconds{20});
  EXPECT_NEAR(demand_.rate(now_), 50, 5);
}

TEST_F(DemandTest, OneClaimMakesAnotherExpectedForAWhile) {
  EXPECT_EQ(demand_.rate(now_), 0);
  claims(1, {});
  EXPECT_EQ(std::llround(expected_claims(demand_.rate(now_), {})), 1);
  EXPECT_EQ(std::llround(expected_claims(demand_.rate(now_ + seconds{30}), {})), 1);
  EXPECT_EQ(std::llround(expected_claims(demand_.rate(now_ + seconds{90}), {})), 0);
}

TEST_F(DemandTest, ARushIsRememberedAndForgotten) {
  claims(200, {});
  const double rush = demand_.rate(now_);
  EXPECT_NEAR(rush, 200, 5);
  now_ += kDemandMemory;
  EXPECT_NEAR(demand_.rate(now_), rush / 2, 1);
  claims(1, {});  // one more is no rush, and does not end the memory of it
  EXPECT_NEAR(demand_.rate(now_), rush / 2, 1);
  EXPECT_LT(demand_.rate(now_ + 12 * kDemandMemory), 0.1);
}

TEST_F(DemandTest, SaysWhenItWillHaveFallen) {
  claims(100, {});
  const Instant then = demand_.falls_to(10, now_);
  EXPECT_GT(demand_.rate(then - milliseconds{10}), 10);
  EXPECT_LE(demand_.rate(then + milliseconds{10}), 10);
  EXPECT_EQ(demand_.falls_to(1000, now_), now_);
  // The moment that rate_below() leads to is one at which fewer are wanted.
  const Duration making = milliseconds{5};
  const Instant less = demand_.falls_to(rate_below(40, making), now_) + kPreparedShortestPause;
  EXPECT_EQ(std::llround(expected_claims(demand_.rate(less), making)), 39);
}

TEST(AllotTest, GivesWhatIsExpectedWithinTheBounds) {
  std::vector<Wish> wishes{
      {.group = 0, .expected = 3.4, .min_idle = 1, .max_idle = 10},
      {.group = 1, .expected = 50, .min_idle = 0, .max_idle = 20},
      {.group = 2, .expected = 0.2, .min_idle = 5, .max_idle = 5},
      {.group = 3, .expected = 0.4, .min_idle = 0, .max_idle = 5},
  };
  for (const std::size_t team : {kNoTeam, std::size_t{7}}) {
    for (Wish& wish : wishes) {
      wish.team = team;
    }
    allot(wishes, 1000);
    EXPECT_EQ(wishes[0].target, 3U);
    EXPECT_EQ(wishes[1].target, 20U);
    EXPECT_EQ(wishes[2].target, 5U);
    EXPECT_EQ(wishes[3].target, 0U);
  }
}

TEST(AllotTest, KindsOfOneTemplateShareItsBounds) {
  std::vector<Wish> wishes{
      {.group = 7, .expected = 30, .min_idle = 0, .max_idle = 20},
      {.group = 7, .expected = 4, .min_idle = 4, .max_idle = 20},
      {.group = 8, .expected = 1, .min_idle = 0, .max_idle = 20},
      {.group = 8, .expected = 0, .min_idle = 4, .max_idle = 20},
      {.group = 9, .expected = 0, .min_idle = 3, .max_idle = 20},
      {.group = 9, .expected = 2, .min_idle = 1, .max_idle = 20},
  };
  allot(wishes, 1000);
  EXPECT_EQ(wishes[0].target, 16U);
  EXPECT_EQ(wishes[1].target, 4U) << "who wants little has all of it";
  EXPECT_EQ(wishes[2].target, 1U);
  EXPECT_EQ(wishes[3].target, 3U) << "the template has its minimum, of all kinds together";
  EXPECT_EQ(wishes[4].target, 2U);
  EXPECT_EQ(wishes[5].target, 2U);
}

TEST(AllotTest, WhatIsExpectedComesBeforeWhatWasAskedForInAdvance) {
  std::vector<Wish> wishes{
      {.group = 0, .team = 1, .expected = 0, .min_idle = 1000, .max_idle = 1000},
      {.group = 1, .team = 2, .expected = 8, .min_idle = 0, .max_idle = 100},
  };
  allot(wishes, 10);
  EXPECT_EQ(wishes[0].target, 2U);
  EXPECT_EQ(wishes[1].target, 8U);
  allot(wishes, 4);
  EXPECT_EQ(wishes[0].target, 0U);
  EXPECT_EQ(wishes[1].target, 4U);
  allot(wishes, 0);
  EXPECT_EQ(wishes[0].target + wishes[1].target, 0U);
}

TEST(AllotTest, NoTeamHasMoreThanHalfInAdvanceAndThePlatformIsFirst) {
  std::vector<Wish> wishes{
      {.group = 0, .team = 1, .min_idle = 1000, .max_idle = 1000},
      {.group = 1, .team = 1, .min_idle = 1000, .max_idle = 1000},
      {.group = 2, .team = 2, .min_idle = 10, .max_idle = 10},
      {.group = 3, .team = kNoTeam, .min_idle = 4, .max_idle = 100},
  };
  allot(wishes, 100);
  EXPECT_EQ(wishes[0].target + wishes[1].target, 50U);
  EXPECT_EQ(wishes[2].target, 10U);
  EXPECT_EQ(wishes[3].target, 4U);
  // With next to nothing, the platform's is still there, whatever others expect.
  wishes[0].expected = 500;
  allot(wishes, 5);
  EXPECT_EQ(wishes[3].target, 4U);
  EXPECT_EQ(wishes[0].target, 1U);
}

}  // namespace
}  // namespace atl::control
