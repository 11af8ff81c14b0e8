// System calls inside a process that goes on afterwards and does not notice.
//
// The process is traced and stands still. The instruction that makes the calls is one that the
// kernel itself gave it, in the pages for fast system calls, so nothing is written to its code.
// x86_64 so far.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "guest/warm_machine.h"

namespace atl::guest {

// All of them as they are, also what says that a system call was interrupted. They may be put back
// where the kernel still looks at that: at a PTRACE_EVENT_STOP.
Result<std::string> save_registers(pid_t pid);
Result<> put_back_registers(pid_t pid, const std::string& saved);

// Where in these bytes of the kernel's pages a system call is made; npos: nowhere.
std::size_t find_call_instruction(std::string_view code);
// What the process does next when it is let go. REQUIRES: it stands still.
Result<> aim_at_call(pid_t pid, std::uint64_t instruction, const KernelCall& call);
Result<std::int64_t> result_of_call(pid_t pid);

}  // namespace atl::guest
