#include "guest/wire_passing.h"

#include <gtest/gtest.h>

namespace atl::guest {
namespace {

TEST(WirePassing, TheWishKeepsTheLength) {
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40, UINT64_MAX}) {
    EXPECT_FALSE(wants_passing(length));
    EXPECT_EQ(without_passing(length), length);
    EXPECT_TRUE(wants_passing(with_passing(length)));
    EXPECT_EQ(without_passing(with_passing(length)), length);
  }
}

TEST(WirePassing, AnOlderGuestReadsAllThatWasAskedForAndMore) {
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1} << 40, UINT64_MAX - 1}) {
    EXPECT_GE(with_passing(length), length);
  }
}

}  // namespace
}  // namespace atl::guest
