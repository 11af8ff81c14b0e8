// A whole small file, or everything on standard input: documents and secrets.
#pragma once

#include <string>

#include "base/error.h"
#include "cli/console.h"

namespace atl::cli {

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 20;

// "-" or empty: standard input.
Result<std::string> read_whole_input(const Console& console, const std::string& file);

}  // namespace atl::cli
