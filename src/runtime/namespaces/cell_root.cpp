// How the cell's file tree comes to be, before the host's tree is let go.
//
// The working directory is the stage; "root" below it is the overlay. Two rules keep a hostile
// image harmless while host paths are still reachable. An image's own name is mounted on only
// after it was opened as a directory without following a link (nothing can change it in between:
// no program of the cell runs yet, and layers never change); every deeper name lies on a mount of
// ours. And /sys is an allow-list: own directories with read-only pieces of a fresh sysfs, so what
// a future kernel adds there stays invisible.
//
// /dev, /dev/shm and the directories of /sys are one file system in memory. For each that is
// mounted the kernel keeps room in every memory cgroup of the host (a "shrinker"), so that of n
// cells costs n times n; and as much as there ever was at once stays reserved in each, until the
// next boot.
//
// Plain mount(2) is used wherever it can do the job: one call, where fsopen, fsconfig, fsmount
// and move_mount are eight and make a temporary mount namespace each time.
#include "runtime/namespaces/cell_root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "runtime/namespaces/cell_identity.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

// The number of terminals is bounded because all of the host's count against kernel.pty.max.
constexpr const char* kTerminalOptions = "newinstance,ptmxmode=0666,mode=0620,gid=5,max=256";
constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

constexpr const char* kSharedMemory = "root/dev/shm";
// The directories of /sys lie where the terminals will cover them: nobody reaches them by that
// name.
constexpr const char* kUnderTerminals = "root/dev/pts";
constexpr const char* kSysTree = "root/dev/pts/sys";

struct Binding {
  const char* source;
  const char* target;
};

int bind(const Binding& binding) {
  return ::mount(binding.source, binding.target, nullptr, MS_BIND, nullptr);
}

int attach(int mount, const char* target) {
  return ::move_mount(mount, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
}

int remount_read_only(const char* target) {
  return ::mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kPlain, nullptr);
}

// A top-level directory of the image, made when the image lacks it. Fails on a link.
int ensure_directory(const CellState& state, const char* name) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = ::openat(state.root_fd, name, kFlags);
  if (fd < 0 && errno == ENOENT && ::mkdirat(state.root_fd, name, 0755) == 0) {
    fd = ::openat(state.root_fd, name, kFlags);
  }
  return fd < 0 ? -1 : ::close(fd);
}

// Writes a sysctl of the cell's own namespaces; kernels without it are fine.
void write_sysctl(const char* path, const char* value, std::size_t size) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    [[maybe_unused]] const auto wrote = ::write(fd, value, size);
    ::close(fd);
  }
}

}  // namespace

int attach_layers(CellState& state) {
  for (std::size_t i = 0; i <= state.plan.layer_count; ++i) {
    const LayerName name{i};
    const char* target = i < state.plan.layer_count ? name.text : kStageUpper;
    if (attach(state.mount_fds[i], target) != 0) {
      return errno;
    }
  }
  return 0;
}

int mount_overlay(CellState& state) {
  if (::mount("overlay", kStageRoot, "overlay", 0, state.plan.overlay_options) != 0) {
    return errno;
  }
  state.root_fd = ::open(kStageRoot, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return state.root_fd < 0 ? errno : 0;
}

// When overlayfs cannot make its work directory (a full quota, a full disk) it mounts read-only and
// calls that a success. A cell that can write nothing is no cell: better none, with the reason.
int check_root_is_writable(CellState& state) {
  struct statfs status{};
  if (::fstatfs(state.root_fd, &status) != 0) {
    return errno;
  }
  return (status.f_flags & ST_RDONLY) != 0 ? ENOSPC : 0;
}

int build_dev(CellState& state) {
  const int nodes = state.mount_fds[state.plan.layer_count + 1];
  const int guest = state.mount_fds[state.plan.layer_count + 2];
  if (ensure_directory(state, "dev") != 0 || attach(nodes, "root/dev") != 0 ||
      attach(guest, "root/dev/init") != 0) {
    return errno;
  }
  constexpr Binding kLinks[] = {{"/proc/self/fd", "root/dev/fd"},
                                {"/proc/self/fd/0", "root/dev/stdin"},
                                {"/proc/self/fd/1", "root/dev/stdout"},
                                {"/proc/self/fd/2", "root/dev/stderr"},
                                {"pts/ptmx", "root/dev/ptmx"}};
  for (const Binding& link : kLinks) {
    if (::symlink(link.source, link.target) != 0) {
      return errno;
    }
  }
  for (const char* directory : {kUnderTerminals, kSharedMemory, "root/dev/mqueue"}) {
    if (::mkdir(directory, 0755) != 0) {
      return errno;
    }
  }
  // A mount of the same file system: what may be done there is another matter than in /dev.
  if (::chmod(kSharedMemory, 01777) != 0 || bind({kSharedMemory, kSharedMemory}) != 0 ||
      ::mount(nullptr, kSharedMemory, nullptr, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV,
              nullptr) != 0) {
    return errno;
  }
  // Kernels without POSIX message queues have no such file system.
  return ::mount("mqueue", "root/dev/mqueue", "mqueue", kPlain, nullptr) != 0 && errno != ENODEV
             ? errno
             : 0;
}

int build_terminals(CellState&) {
  return ::mount("devpts", kUnderTerminals, "devpts", MS_NOSUID | MS_NOEXEC, kTerminalOptions) != 0
             ? errno
             : 0;
}

int build_sys(CellState& state) {
  if (ensure_directory(state, "sys") != 0 || ::mkdir(kSysTree, 0755) != 0 ||
      bind({kSysTree, "root/sys"}) != 0) {
    return errno;
  }
  constexpr const char* kDirectories[] = {"root/sys/class",
                                          "root/sys/class/net",
                                          "root/sys/devices",
                                          "root/sys/devices/system",
                                          "root/sys/devices/system/cpu",
                                          "root/sys/devices/virtual",
                                          "root/sys/devices/virtual/net",
                                          "root/sys/kernel",
                                          kEmptyDirectory};
  for (const char* name : kDirectories) {
    if (::mkdir(name, 0755) != 0) {
      return errno;
    }
  }
  if (const int error = write_missing_file(kBootIdFile, state.plan.boot_id_file); error != 0) {
    return error;
  }
  if (state.plan.resolver_file != nullptr) {
    // A cell on the host's network may not mount a sysfs, and the host's shows more than it should.
    return remount_read_only("root/sys") != 0 ? errno : 0;
  }
  // Fresh, not the host's: /sys/class/net shows the network namespace it was mounted in. Copies
  // of a read-only mount are read-only.
  if (::mount("sysfs", kStageSys, "sysfs", kPlain | MS_RDONLY, nullptr) != 0) {
    return errno;
  }
  constexpr Binding kShown[] = {{"s/devices/system/cpu", "root/sys/devices/system/cpu"},
                                {"s/class/net", "root/sys/class/net"},
                                {"s/devices/virtual/net", "root/sys/devices/virtual/net"}};
  for (const Binding& shown : kShown) {
    if (bind(shown) != 0) {
      return errno;
    }
  }
  return remount_read_only("root/sys") != 0 ? errno : 0;
}

// Only where /tmp is to go with the processes. An image whose /tmp is a link has no such /tmp.
int build_tmp(CellState& state) {
  if (state.plan.tmp_options == nullptr) {
    return 0;
  }
  return ensure_directory(state, "tmp") != 0 ||
                 ::mount("tmp", "root/tmp", "tmpfs", MS_NOSUID | MS_NODEV,
                         state.plan.tmp_options) != 0
             ? errno
             : 0;
}

int show_views(CellState& state) {
  if (state.plan.view_count == 0) {
    return 0;
  }
  if (ensure_directory(state, "views") != 0 ||
      ::mount("tmpfs", "root/views", "tmpfs", kPlain, "mode=0755,size=4k,nr_inodes=256") != 0) {
    return errno;
  }
  const std::size_t first =
      state.plan.layer_count + kMountsBesideLayers + state.plan.mount_targets.size();
  for (std::size_t i = 0; i < state.plan.view_count; ++i) {
    const ViewName name{i};
    const int view = state.mount_fds[first + i];
    if (::mkdir(name.text, 0755) != 0 ||
        ::move_mount(view, "", AT_FDCWD, name.text, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
      return errno;
    }
  }
  return remount_read_only("root/views") != 0 ? errno : 0;
}

// They are the writer's own namespaces' whichever /proc they are written through. Through the
// cell's own it costs the same however many cells there are: in the host's each network namespace
// leaves an entry of the same name, and all of them are looked at for each.
void write_sysctls(const CellState& state) {
  // Behind the seccomp rule: no user namespace may be made in the cell, by anyone, ever.
  write_sysctl("root/proc/sys/user/max_user_namespaces", "0", 1);
  if (state.plan.resolver_file == nullptr) {
    // As Docker does: port 80 needs no privilege, the network is the cell's own.
    write_sysctl("root/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", 1);
  }
  if (state.plan.network != nullptr) {
    // Ports of closed connections are used again after a second. Without it 14,000 connections to
    // one place within a minute make each further one cost 2 ms of search.
    write_sysctl("root/proc/sys/net/ipv4/tcp_tw_reuse", "1", 1);
  }
}

int build_restore(CellState& state) {
  if (ensure_directory(state, "proc") != 0 ||
      ::mount("/proc", "root/proc", nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return errno;
  }
  write_sysctls(state);
  if (::mkdir("root/dev/.restore", 0700) != 0 ||
      ::mount("tmpfs", "root/dev/.restore", "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=0700,size=8m,nr_inodes=64") != 0) {
    return errno;
  }
  for (const char* name : {"tools", "images", "work"}) {
    char path[64] = "root/dev/.restore/";
    ::strcat(path, name);
    if (::mkdir(path, 0700) != 0) {
      return errno;
    }
  }
  if (::symlink("images", "root/dev/.restore/dump") != 0) {  // criu insists on a link
    return errno;
  }
  const std::size_t first = state.plan.layer_count + kMountsBesideLayers +
                            state.plan.mount_targets.size() + state.plan.view_count;
  return attach(state.mount_fds[first], "root/dev/.restore/tools") != 0 ||
                 attach(state.mount_fds[first + 1], "root/dev/.restore/images") != 0
             ? errno
             : 0;
}

int build_proc(CellState& state) {
  if (ensure_directory(state, "proc") != 0 ||
      ::mount("proc", "root/proc", "proc", kPlain, nullptr) != 0) {
    return errno;
  }
  write_sysctls(state);
  for (const ProcMask& mask : state.plan.proc_masks) {
    if (bind({mask.directory ? kEmptyDirectory : "root/dev/null", mask.path.c_str()}) != 0 &&
        errno != ENOENT) {
      return errno;
    }
  }
  constexpr const char* kSettings = "root/proc/sys";
  if (bind({kSettings, kSettings}) != 0 || remount_read_only(kSettings) != 0) {
    return errno;
  }
  // All cells share the kernel's, which tells two of them that they are on one host.
  return bind({kBootIdFile, "root/proc/sys/kernel/random/boot_id"}) != 0 && errno != ENOENT ? errno
                                                                                            : 0;
}

// pivot_root(".", ".") stacks the old root on the new one; the lazy unmount takes it away with
// everything of the host below it. From here on no host path can be named.
int change_root(CellState& state) {
  if (::fchdir(state.root_fd) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) {
    return errno;
  }
  return 0;
}

}  // namespace atl::runtime::namespaces
