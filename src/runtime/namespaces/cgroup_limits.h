// Reading and writing the control files of one cell's cgroup, version 1 and 2 side by side.
#pragma once

#include <cstdint>
#include <optional>

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

// Writes what all cells together may have, on the instance's own directory.
Result<> write_instance_limits(const CgroupHierarchy& hierarchy);
// 80 percent of what the host can have, at least one; nothing when neither number is known.
std::optional<std::uint64_t> instance_process_count(std::optional<std::uint64_t> pid_max,
                                                    std::optional<std::uint64_t> threads_max);

// Adds what this hierarchy knows.
Result<> read_usage(const CgroupHierarchy& hierarchy, int cell_fd, Usage& usage);

// REQUIRES: freezing is the hierarchy's duty. Freezing returns when everything has stopped.
Result<> write_frozen(const CgroupHierarchy& hierarchy, int cell_fd, bool frozen);
// Of version 2, by event. False when it cannot be known.
bool wait_until_unpopulated(int cell_fd, std::chrono::milliseconds at_most);
Result<bool> read_frozen(const CgroupHierarchy& hierarchy, int cell_fd);

}  // namespace atl::runtime::namespaces
