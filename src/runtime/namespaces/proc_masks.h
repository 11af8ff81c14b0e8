// What of /proc a cell must not see: host-wide state that no program in a sandbox needs.
//
// Looked up once when the runtime opens; these entries are the same in every /proc of a kernel.
#pragma once

#include <vector>

#include "runtime/namespaces/cell_plan.h"

namespace atl::runtime::namespaces {

std::vector<ProcMask> find_proc_masks();

}  // namespace atl::runtime::namespaces
