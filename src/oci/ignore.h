// Patterns over paths: .dockerignore files, and the wildcards in COPY and ADD.
//
// A pattern is matched component by component: * and ? and [a-z] stay within one, ** stands for any
// number of them. In an ignore file the last pattern that matches a path or one of its parents
// decides; "!" takes a path back in. Matching is linear for any input: no pattern can make it slow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::oci {

// The whole path against the whole pattern. Both relative, without leading slash.
bool matches_path(std::string_view pattern, std::string_view path);
bool has_wildcard(std::string_view text);

class IgnoreRules {
 public:
  static Result<IgnoreRules> parse(std::string_view text);
  bool ignores(std::string_view path) const;

 private:
  struct Rule {
    std::string pattern;
    bool exclude = true;
  };
  std::vector<Rule> rules_;
};

}  // namespace atl::oci
