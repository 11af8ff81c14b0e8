// The regular expressions of files/grep: RE2's syntax, without what cannot be matched in time that
// grows with the text alone.
//
// The guest matches with POSIX extended expressions (guest/file_search.cpp), whose matcher is an
// automaton as long as there are no back references; so those are refused here, and what people
// write (\d, lazy quantifiers, (?:..), (?i), \Q..\E) becomes what POSIX has. Only whether a line
// matches counts, so greedy or lazy is the same. A line is bytes: "." is one byte, and a character
// beyond ASCII is a literal like any other.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::service::native {

struct SearchPattern {
  std::string regex;         // POSIX extended
  bool ignore_case = false;  // the pattern began with (?i)
};

// kInvalidArgument with reason bad_regex says what is not possible.
Result<SearchPattern> translate_regex(std::string_view pattern);
// A text that stands for itself.
Result<SearchPattern> quote_text(std::string_view text);

}  // namespace atl::service::native
