#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/room.h"

namespace atl::runtime {
namespace {

TEST(HostChecksTest, EveryGapComesWithAdvice) {
  const auto checks = check_host();
  EXPECT_GE(checks.size(), 10U);
  for (const HostCheck& check : checks) {
    EXPECT_FALSE(check.name.empty());
    EXPECT_FALSE(check.finding.empty()) << check.name;
    EXPECT_EQ(check.verdict == HostCheck::Verdict::kOk, check.advice.empty()) << check.name;
  }
}

// The trial is what cells do; if it says no where cells run, doctor lies.
TEST(HostChecksTest, OverlayTrialAgreesWithCells) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const auto checks = check_host();
  const auto overlay = std::ranges::find(checks, "overlay on id-mapped layers", &HostCheck::name);
  ASSERT_NE(overlay, checks.end());
  EXPECT_EQ(overlay->verdict, HostCheck::Verdict::kOk) << overlay->finding;
}

}  // namespace
}  // namespace atl::runtime
