// Reading the times that the API writes.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"

namespace atl::cli {

// "2026-11-15T08:22:51.123Z" or with an offset; nullopt on anything else.
std::optional<UnixMillis> parse_rfc3339_ms(std::string_view text);

}  // namespace atl::cli
