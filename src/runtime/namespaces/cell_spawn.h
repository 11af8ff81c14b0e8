// The parent's half of create: clone3, the id maps, the mounts, and the child's last word.
#pragma once

#include <linux/filter.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/cgroup_tree.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// What all cells of a runtime share; prepared when it opens.
struct CellBlueprint {
  std::unique_ptr<GuestImages> guests;
  std::string stage_dir;
  std::vector<ProcMask> proc_masks;
  std::vector<sock_filter> seccomp_filter;
  int landlock_abi = 0;
  std::optional<NetworkPlan> network;  // nothing: this host cannot give cells a way out
  std::string criu_directory;          // empty: this host cannot dump or restore memory
};

// On failure no process is left; the cgroups are the caller's.
// REQUIRES: `spec` is valid.
Result<Cell> spawn_cell(const CellBlueprint& blueprint, const CgroupPlaces& places,
                        const CellSpec& spec);

}  // namespace atl::runtime::namespaces
