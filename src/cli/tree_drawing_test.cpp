#include "cli/tree_drawing.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace atl::cli {
namespace {

const std::vector<TreeRow> kForest{{0, "a"}, {1, "b"}, {2, "c"}, {1, "d"}, {2, "e"}, {0, "f"}};

TEST(TreeDrawing, LinesLeadToEveryChild) {
  EXPECT_EQ(draw_tree(kForest, true), "a\n├─ b\n│  └─ c\n└─ d\n   └─ e\nf\n");
  EXPECT_EQ(draw_tree(kForest, false), "a\n|- b\n|  `- c\n`- d\n   `- e\nf\n");
  EXPECT_EQ(draw_tree({}, true), "");
}

TEST(TreeDrawing, AMissingParentIsNoGap) {
  EXPECT_EQ(draw_tree({{3, "a"}, {7, "b"}, {7, "c"}}, false), "a\n`- b\n   `- c\n");
}

TEST(TreeDrawing, ADeepChainIsDrawn) {
  std::vector<TreeRow> rows;
  for (std::size_t depth = 0; depth < 300; ++depth) {
    rows.push_back({depth, "x"});
  }
  const std::string text = draw_tree(std::move(rows), false);
  EXPECT_TRUE(text.ends_with(std::string(298 * 3, ' ') + "`- x\n"));
}

TEST(TreeDrawing, TheFirstWordOfTheLocaleCounts) {
  const auto utf8 = [](const char* all, const char* type, const char* lang) {
    ::setenv("LC_ALL", all, 1);
    ::setenv("LC_CTYPE", type, 1);
    ::setenv("LANG", lang, 1);
    return locale_is_utf8();
  };
  EXPECT_TRUE(utf8("", "", "de_DE.UTF-8"));
  EXPECT_TRUE(utf8("C.utf8", "", "C"));
  EXPECT_FALSE(utf8("C", "en_US.UTF-8", "en_US.UTF-8"));
  EXPECT_FALSE(utf8("", "", ""));
}

}  // namespace
}  // namespace atl::cli
