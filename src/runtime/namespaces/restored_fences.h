// Whether a restored process is behind the fences of a cell, as the kernel says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace atl::runtime::namespaces {

// What criu made is not believed to be what was dumped. All but `outside_count` of these, which are
// in the node's own pid namespace as criu is, must share another one and be fenced.
Result<> check_restored(std::span<const int> pids, std::size_t outside_count);

// What tells it from others; 0 when the process is gone.
Result<std::uint64_t> pid_namespace_of(int pid);

// Every thread has a seccomp filter, cannot gain privileges, and has no capability that a cell does
// not keep. kFailedPrecondition otherwise; one that ends meanwhile is fine.
Result<> check_fences(int pid);

// The same for the text of one /proc/PID/status.
Result<> check_fences_in(std::string_view status);

}  // namespace atl::runtime::namespaces
