// A restore, from inside: criu runs as root of the new cell, in all its fences but seccomp, and
// brings the dumped processes back; the node answers its questions.
//
// criu reads images that were made from hostile processes, so it has no privilege on the host: what
// it could be made to do, it does as the cell's root in the cell's namespaces, Landlock domain and
// cgroups. Only the node's own visitor, which trusts nothing of it, is outside of that domain: when
// the new pid namespace is there it mounts the cell's /proc and takes away what criu came with.
#pragma once

#include <span>

#include "runtime/namespaces/cell_plan.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

struct Restoring {
  int criu_pid = 0;
  std::span<const ProcMask> proc_masks;
};

// `channel` is the one of a child that runs the steps of a restore. On failure processes may be
// left; the caller ends all that are in the cell's cgroups.
Result<Cell> restore_cell(int channel, const CellSpec& spec, const Restoring& restoring);

}  // namespace atl::runtime::namespaces
