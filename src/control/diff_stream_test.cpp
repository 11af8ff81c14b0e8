#include "control/diff_stream.h"

#include <gtest/gtest.h>

namespace atl::control {
namespace {

TEST(WhiteoutPath, NamesWhatIsGoneBesideIt) {
  EXPECT_EQ(whiteout_path("a"), ".wh.a");
  EXPECT_EQ(whiteout_path("a/b/c"), "a/b/.wh.c");
  EXPECT_EQ(whiteout_path(std::string(251, 'n'))->size(), 255U);
}

TEST(WhiteoutPath, RefusesWhatWouldMeanSomethingElse) {
  for (const std::string& path :
       {std::string{".wh.a"}, std::string{"d/.wh..wh..opq"}, std::string(252, 'n')}) {
    const auto refused = whiteout_path(path);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().reason, "unrepresentable_name");
  }
}

}  // namespace
}  // namespace atl::control
