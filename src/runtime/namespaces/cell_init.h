// The child's half of create: from the first instruction after clone3 to execveat of the guest.
#pragma once

#include "runtime/namespaces/cell_plan.h"

namespace atl::runtime::namespaces {

// Never returns: becomes the guest, or reports the failed step on plan.channel_fd and exits.
// REQUIRES: called in the single-threaded child of clone3, all signals blocked.
[[noreturn]] void run_cell_init(const CellPlan& plan);

}  // namespace atl::runtime::namespaces
