// The child's mounts: the overlay root, /dev, /proc, /sys, and the change of root.
//
// Each function is one step of cell_init and returns 0 or an errno. They run in the child of
// clone3: see cell_plan.h for what that forbids.
#pragma once

#include "runtime/namespaces/cell_network.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/mount_transfer.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// The layers, the upper directory, /dev and the guest; the volumes, the views; of a restore also
// criu and the dump.
inline constexpr std::size_t kMountsBesideLayers = 3;
inline constexpr std::size_t kMountsOfRestore = 2;
static_assert(kMaxTransferredMounts ==
              kMaxLayers + kMountsBesideLayers + kMaxVolumeMounts + kMaxViews + kMountsOfRestore);

// What the child knows while it builds itself.
struct CellState {
  const CellPlan& plan;
  int channel_fd = -1;
  int listen_fd = -1;                         // made here, in the cell's network namespace
  int mount_fds[kMaxTransferredMounts] = {};  // in the order above
  int root_fd = -1;                           // the overlay's root
  int guest_fd = -1;                          // the program of the last step
  int network_fds[kNetworkSocketCount] = {-1, -1, -1};  // for the parent
};

int attach_layers(CellState& state);
int mount_overlay(CellState& state);
int check_root_is_writable(CellState& state);
// Without the terminals: what build_sys makes is below them.
int build_dev(CellState& state);
// REQUIRES: build_dev and build_sys ran: their /dev/null and empty directory cover entries.
int build_proc(CellState& state);
int build_sys(CellState& state);
int build_terminals(CellState& state);
int build_tmp(CellState& state);
int show_views(CellState& state);
// The directory of a restore, and the host's /proc, which criu needs until the cell has its own.
int build_restore(CellState& state);
int change_root(CellState& state);

}  // namespace atl::runtime::namespaces
