// Volumes in a cell's tree: mounted by the child while it builds itself, taken out again later.
#pragma once

#include "base/error.h"
#include "runtime/namespaces/cell_root.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// Steps of cell_init; see cell_plan.h for what they may do.
int mount_volumes(CellState& state);
// The guest's root becomes the first volume, when the plan says so.
int enter_volume(CellState& state);

// Takes the volume out of the mount namespace of a process. kNotFound when it is not there.
Result<> detach_volume(int pidfd, const VolumeMount& mount);

}  // namespace atl::runtime::namespaces
