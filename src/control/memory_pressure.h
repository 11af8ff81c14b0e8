// When a host has so little memory left that paused sandboxes should give theirs back.
#pragma once

#include <string_view>

namespace atl::control {

// Of the text of /proc/meminfo: less than a tenth is available.
bool memory_is_short(std::string_view meminfo);
bool host_memory_is_short();

}  // namespace atl::control
