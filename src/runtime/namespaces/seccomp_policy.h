// Which system calls a cell may make.
//
// An allow-list: what ordinary Linux software needs is allowed, what it may ask for but must not
// have answers EPERM, and everything else (also what future kernels add) answers ENOSYS, which
// programs take as "an older kernel" and fall back. Compiled once when the runtime opens.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/error.h"
#include "runtime/namespaces/seccomp_program.h"

namespace atl::runtime::namespaces {

// The verdicts by number; resolves names for the architecture we run on.
Result<SyscallTable> make_syscall_table();

Result<std::vector<sock_filter>> make_seccomp_filter();

}  // namespace atl::runtime::namespaces
