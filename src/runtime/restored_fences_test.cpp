// What the kernel says about a restored process decides, and nothing missing is taken for good.
#include "runtime/namespaces/restored_fences.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace atl::runtime::namespaces {
namespace {

constexpr std::string_view kFenced =
    "Name:\tx\nState:\tt (tracing stop)\nCapInh:\t0000000000000000\n"
    "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000001\n"
    "CapAmb:\t0000000000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n";

std::string with(std::string_view from, std::string_view to) {
  std::string text{kFenced};
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(RestoredFencesTest, EachFenceIsAskedFor) {
  EXPECT_TRUE(check_fences_in(kFenced));
  EXPECT_FALSE(check_fences_in(with("Seccomp:\t2", "Seccomp:\t0")));
  EXPECT_FALSE(check_fences_in(with("Seccomp:\t2", "Other:\t2")));
  EXPECT_FALSE(check_fences_in(with("CapBnd:\t0000000000000001", "CapBnd:\t000001ffffffffff")));
  EXPECT_FALSE(check_fences_in(with("CapEff:\t0000000000000000", "CapEff:\t0000000000200000")));
  EXPECT_FALSE(check_fences_in(with("CapBnd:\t0000000000000001", "CapBnd:\t")));
  EXPECT_FALSE(check_fences_in(""));
  EXPECT_TRUE(check_fences_in("State:\tZ (zombie)\nSeccomp:\t0\n")) << "it runs no more";
}

TEST(RestoredFencesTest, ThisProcessHasNone) {
  EXPECT_FALSE(check_fences(::getpid()));
  EXPECT_NE(*pid_namespace_of(::getpid()), 0U);
}

}  // namespace
}  // namespace atl::runtime::namespaces
