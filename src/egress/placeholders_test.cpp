#include "egress/placeholders.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "egress/request_path.h"

namespace atl::egress {
namespace {

const std::vector<Replacement> kTwo{{"PLACEHOLDER_ONE", "s\"1"}, {"PLACEHOLDER_ONE_LONGER", "two"}};

TEST(Placeholders, AreReplacedWhereverTheChunksAreCut) {
  const std::string text =
      "aPLACEHOLDER_ONEb PLACEHOLDER_ONE_LONGER PLACEHOLDER_ON PLACEHOLDER_ONE";
  const std::string wanted = "as\"1b two PLACEHOLDER_ON s\"1";
  EXPECT_EQ(rewrite_text(text, kTwo, ValueEscape::kNone), wanted);
  for (std::size_t size = 1; size < text.size(); ++size) {
    PlaceholderRewriter rewriter{kTwo, ValueEscape::kNone};
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size) {
      out += rewriter.feed(std::string_view{text}.substr(at, size));
    }
    out += rewriter.finish();
    EXPECT_EQ(out, wanted) << size;
    EXPECT_EQ(rewriter.replaced(), 3U);
  }
}

TEST(Placeholders, AValueIsNeverLookedAtAgain) {
  const std::vector<Replacement> circle{{"PLACEHOLDER_A", "PLACEHOLDER_B"},
                                        {"PLACEHOLDER_B", "PLACEHOLDER_A"}};
  EXPECT_EQ(rewrite_text("PLACEHOLDER_A", circle, ValueEscape::kNone), "PLACEHOLDER_B");
}

TEST(Placeholders, AreEscapedForWhereTheyGo) {
  EXPECT_EQ(rewrite_text(R"({"key":"PLACEHOLDER_ONE"})", kTwo, ValueEscape::kJson),
            R"({"key":"s\"1"})");
  EXPECT_EQ(rewrite_text("key=PLACEHOLDER_ONE&a=b", kTwo, ValueEscape::kPercent), "key=s%221&a=b");
  EXPECT_EQ(escape_for_content_type("Application/JSON; charset=utf-8"), ValueEscape::kJson);
  EXPECT_EQ(escape_for_content_type("application/vnd.api+json"), ValueEscape::kJson);
  EXPECT_EQ(escape_for_content_type("application/x-www-form-urlencoded"), ValueEscape::kPercent);
  EXPECT_EQ(escape_for_content_type("text/plain"), ValueEscape::kNone);
}

TEST(Placeholders, InsideABasicAuthorization) {
  const auto value = concat("Basic ", base64_encode("user:PLACEHOLDER_ONE"));
  EXPECT_EQ(rewrite_header("Authorization", value, kTwo),
            concat("Basic ", base64_encode("user:s\"1")));
  EXPECT_EQ(rewrite_header("authorization", "Bearer PLACEHOLDER_ONE", kTwo), "Bearer s\"1");
}

TEST(Placeholders, ASecretCannotEndAHeader) {
  EXPECT_FALSE(rewrite_header("X-Key", "PLACEHOLDER_ONE", {{"PLACEHOLDER_ONE", "a\r\nHost: b"}}));
}

TEST(Placeholders, OnTheWrongWayAreFoundInDisguise) {
  const std::vector<std::string> placeholders{"PLACEHOLDER_ONE"};
  for (const auto& text :
       {std::string{"x=PLACEHOLDER_ONE"}, std::string{"x=%50LACEHOLDER%5FONE"},
        base64_encode("PLACEHOLDER_ONE"), base64_encode("aPLACEHOLDER_ONEbb"),
        base64_encode("aaPLACEHOLDER_ONE"), concat("token=", base64_encode("u:PLACEHOLDER_ONE"))}) {
    EXPECT_EQ(find_placeholder(text, placeholders), "PLACEHOLDER_ONE") << text;
  }
  EXPECT_FALSE(find_placeholder("PLACEHOLDER_TWO", placeholders));
}

TEST(RequestPath, OneForm) {
  EXPECT_EQ(canonical_path("/a/%62%2D/c%20d%c3%bc"), "/a/b-/c%20d%C3%BC");
  EXPECT_EQ(canonical_path("/"), "/");
  EXPECT_EQ(canonical_path("/a//b/"), "/a//b/");
  for (const auto* path : {"",
                           "a",
                           "//host/x",
                           "/a/../b",
                           "/a/./b",
                           "/a/..",
                           "/%2e%2e/b",
                           "/a%2fb",
                           "/a%5Cb",
                           "/a\\b",
                           "/a%00",
                           "/a%0d",
                           "/a%",
                           "/a%2",
                           "/a%zz",
                           "/a b",
                           "/a/..;x/b",
                           "/a%252fb",
                           "/a?b",
                           "http://x/",
                           "/a/%c0%ae%c0%ae/b",
                           "/a/..%3b/b",
                           "/a/%2e%3Bx/b",
                           "/%ff"}) {
    EXPECT_FALSE(canonical_path(path)) << path;
  }
}

TEST(RequestPath, WithoutParameters) {
  EXPECT_EQ(path_without_parameters("/"), "/");
  EXPECT_EQ(path_without_parameters("/a;x=y/b;z"), "/a/b");
  EXPECT_EQ(path_without_parameters("/a%3Bx/"), "/a/");
  EXPECT_EQ(path_without_parameters("/a//b/"), "/a//b/");
}

}  // namespace
}  // namespace atl::egress
