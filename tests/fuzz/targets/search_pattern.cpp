// Regular expressions of a search, as the guest will compile them; a quoted text matches itself.
#include "service/native/search_pattern.h"

#include <regex.h>

#include "fuzz.h"

namespace atl::fuzz {
namespace {

// Longer ones take glibc's compiler too long for a fuzzer; their length is limited elsewhere.
constexpr std::size_t kMaxPatternBytes = 64;

class Compiled {
 public:
  explicit Compiled(const service::native::SearchPattern& pattern) {
    const int flags = REG_EXTENDED | REG_NOSUB | (pattern.ignore_case ? REG_ICASE : 0);
    status_ = ::regcomp(&regex_, pattern.regex.c_str(), flags);
  }
  ~Compiled() {
    if (good()) {
      ::regfree(&regex_);
    }
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  bool good() const { return status_ == 0; }
  bool too_large() const { return status_ == REG_ESPACE; }  // which the guest answers by itself
  bool matches(const std::string& text) const {
    return ::regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t regex_{};
  int status_ = 0;
};

}  // namespace

void search_pattern(std::string_view input) {
  input = input.substr(0, kMaxPatternBytes);
  if (const auto pattern = service::native::translate_regex(input)) {
    CHECK(pattern->regex.find('\0') == std::string::npos);
    const Compiled compiled{*pattern};
    CHECK(compiled.good() || compiled.too_large());
    (void)(compiled.good() && compiled.matches("a line of text"));
  } else {
    CHECK(!pattern.error().message.empty());
  }
  if (const auto quoted = service::native::quote_text(input)) {
    const Compiled compiled{*quoted};
    CHECK(compiled.good() && compiled.matches(std::string{input}));
  }
}

Seeds search_pattern_seeds() {
  return {"(?i)hello.*world$",
          "\\d+\\s*\\w{2,3}?",
          "[^a-z\\d]|(?:x|y)+",
          "\\Qa.b\\E",
          "(a)(b)\\1",
          "[[:alpha:]]]",
          "a{1,2}{3}",
          "(((((x)))))",
          "[",
          "\\",
          "a**",
          "^$|\\b\\B",
          "x{99999}",
          "(?=x)",
          "[a\\]-]",
          "[a[:]",
          "[[:nonsense:]]",
          "[\x80-a]",
          "(a)\xf3\\1",
          "\xc3\xa4+"};
}

}  // namespace atl::fuzz
