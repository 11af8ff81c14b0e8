// The parent's half of create: clone3, the id maps, the mounts, and the child's last word.
#pragma once

#include <memory>

#include "base/error.h"
#include "runtime/namespaces/cgroup_tree.h"
#include "runtime/namespaces/planned_cell.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// On failure no process is left (one that is stuck in the kernel is killed); the cgroups are the
// caller's. REQUIRES: `spec` is valid.
Result<Cell> spawn_cell(std::shared_ptr<const CellBlueprint> blueprint, CgroupPlaces places,
                        CellSpec spec);

}  // namespace atl::runtime::namespaces
