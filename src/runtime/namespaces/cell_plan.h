// CellPlan: everything the child of clone3 touches, prepared by the parent beforehand.
//
// The child borrows the node's memory (cell_clone.h) while the node's threads go on, so it may
// neither allocate nor take a lock until it execs: whoever holds a lock, or the memory, may be any
// of them. It writes to its own stack and, through the C library, to errno of the thread that
// stands still for it, and to nothing else. Hence plain pointers into memory that the parent keeps
// alive and does not change (planned_cell.h).
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/namespaces/network_plan.h"

namespace atl::runtime::namespaces {

inline constexpr std::size_t kMaxLayers = 64;
inline constexpr std::size_t kMaxViews = 130;  // two roots, each of as many layers and an upper
inline constexpr std::size_t kMaxCgroupFds = 16;

// A path the cell must not see, as seen from the stage. Files are covered by /dev/null,
// directories by an empty read-only one.
struct ProcMask {
  std::string path;
  bool directory;
};

struct CellPlan {
  // A StepReport goes out, the mount descriptors come in; of a restore also all of criu's protocol.
  int channel_fd = -1;
  std::span<const int> cgroup_fds;  // "tasks" files; writing "0" joins

  const char* stage_dir = nullptr;
  const char* hostname = nullptr;
  const char* overlay_options = nullptr;
  const char* tmp_options = nullptr;  // of the tmpfs on /tmp; null: it is on disk
  // What its files say about it; see cell_identity.h. Without a new identity, those that the image
  // lacks.
  enum class Identity : std::uint8_t { kKeep, kFillIn, kRenew };
  Identity identity = Identity::kKeep;
  const char* hostname_file = nullptr;
  const char* hosts_file = nullptr;
  const char* own_hosts_line = nullptr;
  const char* machine_id_file = nullptr;
  const char* boot_id_file = nullptr;
  // The host's network: its resolv.conf covers the image's. Null: an own network.
  const char* resolver_file = nullptr;
  const NetworkPlan* network = nullptr;  // of an own network; null: only its loopback device
  std::size_t layer_count = 0;
  std::span<const char* const> mount_targets;  // of the volumes, in the order of their descriptors
  bool mount_is_root = false;
  std::size_t view_count = 0;

  std::span<const ProcMask> proc_masks;
  const sock_fprog* seccomp = nullptr;
  int landlock_abi = 0;
  std::uint64_t open_files = 0;
  std::uint64_t core_bytes = 0;

  // The cell is filled from a dump: it gets no pid namespace and no guest of its own, and its last
  // step starts criu, which makes both.
  bool restore = false;
  const char* restore_settings = nullptr;  // criu's configuration
  const char* time_offsets = nullptr;      // of a time namespace; null: the host's clocks
};

// What only a restore has, in a file system of its own below /dev that is gone before anything of
// the cell runs; criu gets the descriptors.
inline constexpr const char* kRestoreDirectory = "/dev/.restore";
inline constexpr const char* kRestoreTools = "/dev/.restore/tools";
inline constexpr const char* kRestoreImages = "/dev/.restore/dump";  // a link to "images"
inline constexpr const char* kRestoreWork = "/dev/.restore/work";
inline constexpr const char* kRestoreSettings = "/dev/.restore/settings";
inline constexpr int kGuestListenFd = 3;  // of a guest, as long as it lives
inline constexpr int kRestoreListenFd = 20;
inline constexpr int kRestoreChannelFd = 21;

// Names below the stage directory; made once at open, mounted on in each child's own namespace.
inline constexpr const char* kStageUpper = "u";
inline constexpr const char* kStageRoot = "root";
inline constexpr const char* kStageSys = "s";
inline constexpr const char* kBootIdFile = "root/sys/kernel/boot_id";
inline constexpr const char* kStageGuests = "g";  // copies of guests
inline constexpr const char* kEmptyDirectory = "root/sys/fs";

// The name of layer `index` ("l0" is the topmost).
struct LayerName {
  explicit constexpr LayerName(std::size_t index) {
    std::size_t end = 1;
    if (index >= 10) {
      text[end++] = static_cast<char>('0' + index / 10);
    }
    text[end++] = static_cast<char>('0' + index % 10);
    text[end] = '\0';
  }
  char text[4] = {'l', 0, 0, 0};
};

// Where view `index` is shown, on a file system of ours.
struct ViewName {
  explicit constexpr ViewName(std::size_t index) {
    std::size_t end = 11;
    if (index >= 100) {
      text[end++] = static_cast<char>('0' + index / 100);
    }
    if (index >= 10) {
      text[end++] = static_cast<char>('0' + index / 10 % 10);
    }
    text[end] = static_cast<char>('0' + index % 10);
  }
  char text[16] = "root/views/";
};

}  // namespace atl::runtime::namespaces
