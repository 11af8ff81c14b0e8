// Host processes by pidfd, with a guard against reused pids.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

// Field 22 of the text of /proc/<pid>/stat. The command name before it may hold anything.
Result<std::uint64_t> parse_start_time(std::string_view stat);

// The process `pid` if it runs and started at `start_time`; kNotFound when it does not.
Result<Fd> open_process(int pid, std::uint64_t start_time);

// True when the process is dead (a zombie counts as dead).
bool is_dead(int pidfd);

// Sends SIGKILL; a process that is dead already is fine.
Result<> kill_process(int pidfd);
// Waits until it is dead and reaps it if it is our child. kDeadlineExceeded when the kernel does
// not let it die in time.
Result<> wait_until_dead(int pidfd);

}  // namespace atl::runtime::namespaces
