// The conversation of a contestant that stays: a line with a number comes in, and that many times
// go out on one line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace atl::bench {

// `measure(count)` gives a Result of a range of numbers.
template <class Measure>
Result<> answer_counts(std::uint64_t most, Measure measure) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto count = parse_u64(line);
    if (!count || *count == 0 || *count > most) {
      return fail(Code::kInvalidArgument, concat("expected a number from 1 to ", most, ": ", line));
    }
    TRY(const auto taken, measure(*count));
    std::string text;
    for (const auto each : taken) {
      text += concat(text.empty() ? "" : " ", each);
    }
    std::puts(text.c_str());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace atl::bench
