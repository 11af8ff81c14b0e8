// The names layers and uppers have on disk. They arrive from outside and become path components,
// so anything but plain lower-case names is refused; names of ours that are not ids begin with a
// dot, which an id cannot.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::layers {

// [a-z0-9._-]{1,128}, not beginning with a dot.
bool is_valid_name(std::string_view name);
Result<> check_name(std::string_view what, std::string_view name);
// What begins so is half-made, and goes when nobody makes it any more (Pool::collect).
inline constexpr std::string_view kNewPrefix = ".new-";
// "<prefix><name>-<16 random hexadecimal digits>"
std::string unique_name(std::string_view prefix, std::string_view name);

}  // namespace atl::layers
