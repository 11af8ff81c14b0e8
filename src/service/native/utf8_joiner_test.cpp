#include "service/native/utf8_joiner.h"

#include <gtest/gtest.h>

namespace atl::service::native {
namespace {

TEST(Utf8JoinerTest, ACutAnywhereGivesTheSameText) {
  const std::string text = "a\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8f\x9d z";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Utf8Joiner joiner;
    std::string all = joiner.add(std::string_view{text}.substr(0, cut));
    all += joiner.add(std::string_view{text}.substr(cut));
    EXPECT_EQ(all, text) << cut;
  }
}

TEST(Utf8JoinerTest, WhatIsNoTextIsReplacedAndNothingWaitsForEver) {
  Utf8Joiner joiner;
  EXPECT_EQ(joiner.add("a\xff"
                       "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(joiner.add("\xe2\x82"), "");
  EXPECT_EQ(joiner.add("x").back(), 'x');
  EXPECT_EQ(joiner.add("\x80").size(), 3U);
  EXPECT_EQ(joiner.add("y\xe2\x82"), "y");
  EXPECT_EQ(joiner.finish(), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(joiner.finish(), "");
}

}  // namespace
}  // namespace atl::service::native
