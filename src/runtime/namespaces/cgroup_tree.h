// CgroupTree: the cgroups of one installation, one per cell in every hierarchy with a duty.
//
//     <hierarchy>/atoll-<instance>/cell-<id>
//
// Nothing is remembered in memory but descriptors of the instance's directories: what exists in
// the kernel is the truth, so a restarted node sees exactly what its predecessor left. A cell's
// cgroup is never used twice.
#pragma once

#include <string>
#include <vector>

#include "runtime/namespaces/cgroup_hierarchy.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// What a new cell needs to be born into its cgroups.
struct CgroupPlaces {
  Fd version2;            // for CLONE_INTO_CGROUP; empty when there is no version 2
  std::vector<Fd> tasks;  // version 1 "tasks" files
};

class CgroupTree {
 public:
  // REQUIRES: instance matches [a-z0-9]{1,16}.
  static Result<CgroupTree> open(const std::string& instance);

  bool does(Duty duty) const { return find(duty) != nullptr; }

  // kAlreadyExists when the cell has a cgroup. On failure nothing is left.
  Result<CgroupPlaces> create(const std::string& id, const Limits& limits) const;
  // Removes the cell's cgroups, waiting a moment for the kernel to let go of them.
  Result<> remove(const std::string& id) const;
  // For error paths, where another error is already on its way up.
  void remove_or_log(const std::string& id) const;
  Result<> set_limits(const std::string& id, const Limits& limits) const;
  Result<Usage> usage(const std::string& id) const;
  // Returns when every process of the cell has stopped.
  Result<> freeze(const std::string& id) const;
  Result<> thaw(const std::string& id) const;
  Result<bool> is_frozen(const std::string& id) const;
  // The directory of the cgroup that freezes the cell.
  Result<std::string> freezer_path(const std::string& id) const;
  // A frozen process of version 1 dies only when it thaws. REQUIRES: the cell has been killed.
  void let_killed_die(const std::string& id) const;
  Result<std::vector<std::string>> list() const;
  // Host pids of the cell's processes, as far as they are visible.
  Result<std::vector<int>> processes(const std::string& id) const;
  // Until no process is in the cell's cgroup, at most so long. Version 1 tells nobody: a pause.
  void wait_for_exits(const std::string& id, std::chrono::milliseconds at_most) const;
  bool contains(const std::string& id, int pid) const;
  Result<> remove_instance();

 private:
  const CgroupHierarchy* find(Duty duty) const;
  Result<Fd> open_cell(const CgroupHierarchy& hierarchy, const std::string& id) const;
  Result<Fd> open_cell(Duty duty, const std::string& id) const;
  Result<> make_cell(const CgroupHierarchy& hierarchy, const std::string& id, const Limits& limits,
                     CgroupPlaces& places) const;
  Result<> require_limits(const Limits& limits) const;

  std::string name_;  // "atoll-<instance>"
  std::vector<CgroupHierarchy> hierarchies_;
};

}  // namespace atl::runtime::namespaces
