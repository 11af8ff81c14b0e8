// The cgroup hierarchies this host offers, and our directory in each.
//
// Hosts have version 1, version 2, or both, and a mounted version 2 may hold no controller at
// all. So every duty (memory, cpu, ...) is given to the one hierarchy that can do it, version 2
// first. Version 2 freezes and accounts cpu time without any controller; where it is usable those
// two duties need no version 1 hierarchy, which saves a move per cell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

enum class Duty : std::uint8_t {
  kMemory = 1U << 0,
  kCpu = 1U << 1,
  kProcesses = 1U << 2,
  kFreeze = 1U << 3,
  kCpuTime = 1U << 4,
  kDevices = 1U << 5,  // one setting for all cells, on the instance's directory
};

struct CgroupMount {
  bool version2 = false;
  std::string path;
  std::vector<std::string> controllers;

  bool has(std::string_view controller) const;
};
// From the text of /proc/self/mountinfo; for version 2, `controllers` is left empty.
std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo);
// The same for this host, with the controllers of version 2 filled in.
Result<std::vector<CgroupMount>> find_cgroup_mounts();

// One hierarchy with the duties it has for us.
struct CgroupHierarchy {
  bool version2 = false;
  std::string path;  // of our directory
  Fd directory;      // our directory in it
  Fd parent;         // where it lies
  unsigned duties = 0;

  bool does(Duty duty) const { return (duties & static_cast<unsigned>(duty)) != 0; }
  // A hierarchy that only keeps devices away needs no directory per cell.
  bool per_cell() const { return (duties & ~static_cast<unsigned>(Duty::kDevices)) != 0; }
};

// Makes (or finds) the directory `name` in each hierarchy that has a duty. Hierarchies that
// refuse are left out: what is missing shows in the duties.
Result<std::vector<CgroupHierarchy>> open_cgroup_hierarchies(const std::string& name);

}  // namespace atl::runtime::namespaces
