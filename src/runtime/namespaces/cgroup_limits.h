// Reading and writing the control files of one cell's cgroup, version 1 and 2 side by side.
#pragma once

#include "base/error.h"
#include "runtime/namespaces/cgroup_hierarchy.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// Writes those limits that are this hierarchy's duty. A zero limit is skipped when `fresh` (a new
// cgroup has none) and lifted otherwise.
struct LimitTarget {
  const CgroupHierarchy& hierarchy;
  int cell_fd;
  bool fresh = false;
};
Result<> write_limits(const LimitTarget& target, const Limits& limits);

// Adds what this hierarchy knows.
Result<> read_usage(const CgroupHierarchy& hierarchy, int cell_fd, Usage& usage);

// REQUIRES: freezing is the hierarchy's duty. Freezing returns when everything has stopped.
Result<> write_frozen(const CgroupHierarchy& hierarchy, int cell_fd, bool frozen);

}  // namespace atl::runtime::namespaces
