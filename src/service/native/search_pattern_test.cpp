#include "service/native/search_pattern.h"

#include <gtest/gtest.h>
#include <regex.h>

#include <vector>

#include "base/strings.h"

namespace atl::service::native {
namespace {

// As the guest does it.
bool matches(const SearchPattern& pattern, const std::string& line) {
  regex_t regex{};
  const int flags = REG_EXTENDED | REG_NOSUB | (pattern.ignore_case ? REG_ICASE : 0);
  EXPECT_EQ(::regcomp(&regex, pattern.regex.c_str(), flags), 0) << pattern.regex;
  const bool found = ::regexec(&regex, line.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&regex);
  return found;
}

struct Case {
  const char* pattern;
  std::vector<std::string> matching;
  std::vector<std::string> others;
};

TEST(SearchPattern, WhatPeopleWrite) {
  const std::vector<Case> cases = {
      {"foo", {"a foo b"}, {"fo", "FOO"}},
      {"^def \\w+\\(", {"def main():"}, {" def main():", "def (x)"}},
      {"\\d{2,3}-\\d+", {"12-3", "x123-4"}, {"1-2", "aa-1"}},
      {"^\\D+$", {"abc"}, {"a1"}},
      {"\\bcat\\b", {"a cat!"}, {"concat"}},
      {"a.*?b+?", {"axxb"}, {"ax"}},
      {"(?:ab)+c", {"ababc"}, {"c"}},
      {"(?P<year>\\d{4})|(?<word>zz)", {"2024", "zz"}, {"z"}},
      {"(?i)ERROR", {"an Error"}, {"err"}},
      {"(?im)^todo$", {"TODO"}, {"todos"}},
      {"[\\w.-]+@[\\w-]+", {"a.b-c@d"}, {"@"}},
      {"^[^\\s\\d]+$", {"abc"}, {"a b", "a1"}},
      {"^[]a]+$", {"]a"}, {"b"}},
      {"^[\\]\\[]+$", {"[]"}, {"a"}},
      {"^[\\^]$", {"^"}, {"a"}},
      {"^[\\^\\-]$", {"^", "-"}, {"a"}},
      {"^[a^]$", {"^", "a"}, {"b"}},
      {"^[a\\-z]$", {"a", "-", "z"}, {"b"}},
      {"^[-a]$", {"-", "a"}, {"b"}},
      {"^[[:digit:]x]$", {"1", "x"}, {"a"}},
      {"^[a-cx-z]$", {"b", "y"}, {"d"}},
      {"^[\\t ]$", {"\t", " "}, {"x"}},
      {"^[+--]$", {"+", ",", "-"}, {"."}},
      {"\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|\\^\\$\\\\", {".*+?()[]{}|^$\\"}, {"x"}},
      {"\\<tag\\>", {"<tag>"}, {"tag"}},
      {"\\Qa.b(\\E+", {"a.b("}, {"axb("}},
      {"\\x41\\x{20ac}", {"A€"}, {"A"}},
      {"é+", {"éé"}, {"e"}},
      {"^(é|x){2}$", {"éx"}, {"é"}},
      {"^[aé]$", {"a", "é"}, {"b"}},
      {"^[éü]+$", {"üé"}, {"a"}},
      {"a{,2}", {"a{,2}"}, {"aa"}},
      {"{x}", {"{x}"}, {"x"}},
      {"a{2}", {"aa"}, {"a"}},
      {"\\Aabc\\z", {"abc"}, {"abcd"}},
      {"^[a[:]+$", {"a[:"}, {"b"}},
      {"^[[:upper:][:digit:]]+$", {"A1"}, {"a"}},
      {"a|b|", {"zzz"}, {}},
      {"()", {"anything"}, {}},
  };
  for (const Case& each : cases) {
    const auto pattern = translate_regex(each.pattern);
    ASSERT_TRUE(pattern) << each.pattern << ": " << pattern.error().message;
    for (const auto& line : each.matching) {
      EXPECT_TRUE(matches(*pattern, line))
          << each.pattern << " = " << pattern->regex << ": " << line;
    }
    for (const auto& line : each.others) {
      EXPECT_FALSE(matches(*pattern, line))
          << each.pattern << " = " << pattern->regex << ": " << line;
    }
  }
}

TEST(SearchPattern, WhatIsRefused) {
  for (const char* pattern :
       {"",           "(a)\\1",      "(?=a)",     "(?!a)",     "(?<=a)b", "(?>a)",
        "a(?i)b",     "*a",          "a**",       "a+*",       "(*a)",    "a|*",
        "(a",         "a)",          "[a",        "[[:alpha:", "a\\",     "\\y",
        "\\x4",       "\\x{110000}", "\\x00",     "a{1001}",   "a{3,2}",  "[z-a]",
        "[^é]",       "[é-ü]",       "[\\D]",     "(?P<a",     "\\0",     "[[:nonsense:]]",
        "[a[:x]y:]]", "[\x80-a]",    "(a)\xf3\\1"}) {
    const auto translated = translate_regex(pattern);
    ASSERT_FALSE(translated) << pattern << " = " << translated->regex;
    EXPECT_EQ(translated.error().reason, "bad_regex");
  }
  EXPECT_FALSE(translate_regex(std::string_view{"a\0b", 3}));
  EXPECT_FALSE(translate_regex(std::string(200, '(') + std::string(200, ')')));
}

TEST(SearchPattern, ATextStandsForItself) {
  const std::string text = "a.b*(c)[d]{1}|^$\\+?é<>";
  const auto pattern = quote_text(text);
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(matches(*pattern, concat("x", text, "y")));
  EXPECT_FALSE(matches(*pattern, "axb*(c)[d]{1}|^$\\+?é<>"));
}

}  // namespace
}  // namespace atl::service::native
