#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/sandbox_bounds.h"
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

TEST(HostChecksTest, SharedBudgetsAreLookedAt) {
  const auto checks = check_host();
  const auto files = std::ranges::find(checks, "open files of the host", &HostCheck::name);
  ASSERT_NE(files, checks.end());
  const auto most = parse_u64(trim(read_file("/proc/sys/fs/file-max").value_or("")));
  EXPECT_EQ(files->verdict == HostCheck::Verdict::kOk, most.value_or(0) >= 4'000'000U);
  const auto core = std::ranges::find(checks, "core dumps", &HostCheck::name);
  ASSERT_NE(core, checks.end());
  const bool piped = read_file("/proc/sys/kernel/core_pattern").value_or("").starts_with('|');
  EXPECT_EQ(core->verdict == HostCheck::Verdict::kOk, !piped);
}

TEST(HostChecksTest, WhatBoundsTheNumberOfSandboxesIsNamed) {
  using namespaces::sandbox_bounds;
  const auto few_files = sandbox_bounds({.open_files = 4096,
                                         .namespaces = 100'000,
                                         .processes = 4'000'000,
                                         .memory_bytes = 64ULL << 30});
  EXPECT_EQ(few_files.front().what, "open files per process");
  EXPECT_EQ(few_files.front().sandboxes, 1024U);
  EXPECT_EQ(sandbox_bounds({.open_files = 1'000'000, .namespaces = 700}).front().what,
            "namespaces");
  EXPECT_EQ(sandbox_bounds({.open_files = 10}).front().sandboxes, 0U);
  EXPECT_EQ(sandbox_bounds({}).front().what, "memory cgroups") << "nothing else is known";
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
