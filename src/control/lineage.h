// Who came from whom: the trees of sandboxes and snapshots of a team.
//
// A tree has a sandbox of a template at its root; below it are its snapshots, its forks and what
// was claimed from its snapshots. Members that are deleted are in it as long as something below
// them is not. The store keeps those that have relatives; a sandbox without is a tree of its own.
// Loop thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/sandbox_requests.h"
#include "control/store_access.h"

namespace atl::control {

class Sandboxes;
using store::Relative;

struct FamilyMember {
  Relative relative;
  std::size_t depth = 0;                // 0: the root of its tree
  std::optional<SandboxStatus> status;  // of a sandbox that is there
};

class Lineage {
 public:
  Lineage(StoreAccess store, const Sandboxes& sandboxes) : store_(store), sandboxes_(sandboxes) {}

  // All trees, oldest first; in each, everybody comes right after its parent or after the last one
  // that came from an older child of that parent.
  Task<std::vector<FamilyMember>> trees(std::string team_id) const;
  // The one that `id` is in: a sandbox or a snapshot, deleted or not. kNotFound when there is none.
  Task<std::vector<FamilyMember>> tree_of(std::string team_id, std::string id) const;

 private:
  StoreAccess store_;
  const Sandboxes& sandboxes_;
};

}  // namespace atl::control
