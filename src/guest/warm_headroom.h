// What the kernel says about memory that is left, and about processes, as numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace atl::guest {

// "Key:\t1\t2": the numbers after this key.
std::vector<std::uint64_t> numbers_of(std::string_view status, std::string_view key);

// So many bytes more fit, with a reserve, as far as can be seen from here: a sandbox sees what the
// machine has, and its own cgroup only where that is mounted.
bool has_headroom(std::uint64_t bytes);

}  // namespace atl::guest
