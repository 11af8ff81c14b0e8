// PlannedCell: a CellPlan with everything it points into, in one object.
//
// Shared, because a child that borrows the node's memory (cell_clone.h) and is stuck in the kernel
// may still read it when the create that made it has long failed.
#pragma once

#include <linux/filter.h>
#include <sys/un.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/cgroup_tree.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// Per process: enough for every server, and 4096 processes of a cell must not be able to hold what
// fs.file-max allows the whole host many times over.
inline constexpr std::uint64_t kOpenFiles = 1U << 16;
inline constexpr std::uint64_t kCoreBytes = 1;  // see set_resource_limits

// What all cells of a runtime share; prepared when it opens.
struct CellBlueprint {
  std::unique_ptr<GuestImages> guests;
  std::string stage_dir;
  std::vector<ProcMask> proc_masks;
  std::vector<sock_filter> seccomp_filter;
  int landlock_abi = 0;
  std::optional<NetworkPlan> network;  // nothing: this host cannot give cells a way out
  std::string criu_directory;          // empty: this host cannot dump or restore memory
  bool lends_memory = true;            // where it can be, see cell_clone.h
};

struct PlanTexts {
  std::string overlay_options;
  std::string tmp_options;
  std::string hostname_file;
  std::string hosts_file;
  std::string own_hosts_line;
  std::string machine_id_file;
  std::string boot_id_file;
  std::string resolver_file;
  std::string time_offsets;
  sockaddr_un guest_socket{};
};

struct PlannedCell {
  PlannedCell() = default;
  PlannedCell(const PlannedCell&) = delete;
  PlannedCell& operator=(const PlannedCell&) = delete;

  std::shared_ptr<const CellBlueprint> blueprint;
  CellSpec spec;
  CgroupPlaces places;
  PlanTexts texts;
  sock_fprog filter{};
  std::vector<int> cgroup_fds;
  std::vector<const char*> mount_targets;
  CellPlan plan;
};

// What a cell may have of /dev/shm.
std::uint64_t shared_memory_bytes(const CellSpec& spec);

// `channel_fd` is the child's end. REQUIRES: `spec` is valid.
Result<std::shared_ptr<const PlannedCell>> plan_cell(std::shared_ptr<const CellBlueprint> blueprint,
                                                     CgroupPlaces places, CellSpec spec,
                                                     int channel_fd);

}  // namespace atl::runtime::namespaces
