// Expressions for grep: whatever is let through is no back reference, and quoting a text gives an
// expression that matches exactly that text.
#include "service/native/search_pattern.h"

#include <regex.h>

#include "base/error.h"
#include "fuzz.h"

namespace atl::fuzz {
namespace {

bool has_back_reference(std::string_view regex) {
  bool set = false;  // within a bracket a backslash is only a backslash
  for (std::size_t i = 0; i < regex.size(); ++i) {
    if (!set && regex[i] == '\\' && i + 1 < regex.size()) {
      ++i;
      if (regex[i] >= '1' && regex[i] <= '9') {
        return true;
      }
    } else if (regex[i] == '[') {
      set = true;
    } else if (regex[i] == ']') {
      set = false;
    }
  }
  return false;
}

}  // namespace

void search_pattern(std::string_view input) {
  const auto pattern = service::native::translate_regex(input);
  CHECK(!pattern || !has_back_reference(pattern->regex));
  CHECK(!pattern || pattern->regex.find('\0') == std::string::npos);
  const std::string text{input.substr(0, 100)};
  const auto quoted = service::native::quote_text(text);
  if (!quoted) {
    return;
  }
  regex_t regex{};
  CHECK(::regcomp(&regex, ("^" + quoted->regex + "$").c_str(), REG_EXTENDED | REG_NOSUB) == 0);
  CHECK(::regexec(&regex, text.c_str(), 0, nullptr, 0) == 0);
  CHECK(::regexec(&regex, (text + "x").c_str(), 0, nullptr, 0) != 0);
  ::regfree(&regex);
}

Seeds search_pattern_seeds() {
  return {"^def \\w+\\(",
          "(?i)[^\\s\\d]+|\\Qa.b\\E{2,3}?",
          "(?P<n>[\\]\\[a-z^-]+)\\x{20ac}",
          "(a)\\1",
          "[[:alpha:]\xc3\xa9]",
          "(?=x)",
          "a{,5}{"};
}

}  // namespace atl::fuzz
