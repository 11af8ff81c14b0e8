// How a root process becomes one that can do nothing special, for good.
#pragma once

#include "base/error.h"
#include "daemon/account.h"

namespace atl::daemon {

// Own group list, gid and uid, no capability left in any set, no way to gain one by exec, no core
// dump and no ptrace by others. Checks afterwards that it worked; fails closed.
Result<> drop_privileges(const Account& account);

// This process dies with its parent `supervisor`. Fails when that one is already gone. A change of
// uid resets it, so it is called again after drop_privileges.
Result<> die_with(pid_t supervisor);

// Own mount namespace: what is mounted from now on is invisible outside and goes with the last
// process in here; what the host unmounts goes here too, so nothing of the host is kept busy.
Result<> enter_private_mounts();

// As many descriptors as the hard limit allows.
void raise_open_files();
// How many descriptors this process may have.
std::size_t open_file_limit();

}  // namespace atl::daemon
