// How the cell's file tree comes to be, before the host's tree is let go.
//
// Two rules keep a hostile image harmless while host paths are still reachable. The image's own
// names are opened only as single components without following links (/dev, /proc, /sys below
// the overlay's root descriptor); every deeper name is one we made ourselves, reached through the
// descriptor of a mount of ours. And /sys is an allow-list: an own tmpfs with read-only pieces of
// a fresh sysfs, so what a future kernel adds there stays invisible.
#include "runtime/namespaces/cell_root.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

constexpr unsigned kPlainMount = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

struct Option {
  const char* key;
  const char* value;  // nullptr: a flag
};

// A new file system as a detached mount. Returns its descriptor or -1.
int make_file_system(const char* type, unsigned attributes, const Option* options,
                     std::size_t count) {
  const int context = ::fsopen(type, FSOPEN_CLOEXEC);
  if (context < 0) {
    return -1;
  }
  int mount_fd = -1;
  bool configured = true;
  for (std::size_t i = 0; i < count && configured; ++i) {
    const auto command = options[i].value == nullptr ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
    configured = ::fsconfig(context, command, options[i].key, options[i].value, 0) == 0;
  }
  if (configured && ::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0) {
    mount_fd = ::fsmount(context, FSMOUNT_CLOEXEC, attributes);
  }
  const int error = errno;
  ::close(context);
  errno = error;
  return mount_fd;
}

int attach(int mount_fd, int directory_fd, const char* name) {
  const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (name[0] == '\0' ? MOVE_MOUNT_T_EMPTY_PATH : 0U);
  return ::move_mount(mount_fd, "", directory_fd, name, flags);
}

// Binds `source` (a path or a name below `source_fd`) onto `name` below `directory_fd`.
int bind(int source_fd, const char* source, int directory_fd, const char* name) {
  const int copy =
      ::open_tree(source_fd, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
  if (copy < 0) {
    return -1;
  }
  const int returned = attach(copy, directory_fd, name);
  const int error = errno;
  ::close(copy);
  errno = error;
  return returned;
}

int make_file(int directory_fd, const char* name) {
  const int fd = ::openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    return -1;
  }
  return ::close(fd);
}

// Mounts onto a top-level directory of the image, which it makes when the image lacks it.
int attach_to_image(const CellState& state, int mount_fd, const char* name) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int target = ::openat(state.root_fd, name, kFlags);
  if (target < 0 && errno == ENOENT && ::mkdirat(state.root_fd, name, 0755) == 0) {
    target = ::openat(state.root_fd, name, kFlags);
  }
  if (target < 0) {
    return -1;
  }
  const int returned = attach(mount_fd, target, "");
  const int error = errno;
  ::close(target);
  errno = error;
  return returned;
}

int make_dev_entries(int dev) {
  constexpr const char* kNodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
  for (const char* name : kNodes) {
    char source[32] = "/dev/";
    for (std::size_t i = 0; name[i] != '\0'; ++i) {
      source[5 + i] = name[i];
    }
    if (make_file(dev, name) != 0 || bind(AT_FDCWD, source, dev, name) != 0) {
      return errno;
    }
  }
  constexpr const char* kLinks[][2] = {{"/proc/self/fd", "fd"},
                                       {"/proc/self/fd/0", "stdin"},
                                       {"/proc/self/fd/1", "stdout"},
                                       {"/proc/self/fd/2", "stderr"},
                                       {"pts/ptmx", "ptmx"}};
  for (const auto& link : kLinks) {
    if (::symlinkat(link[0], dev, link[1]) != 0) {
      return errno;
    }
  }
  constexpr const char* kDirectories[] = {"pts", "shm", "mqueue"};
  for (const char* name : kDirectories) {
    if (::mkdirat(dev, name, 0755) != 0) {
      return errno;
    }
  }
  return 0;
}

// Writes a sysctl of the cell's own namespaces; kernels without it are fine.
void write_sysctl(int proc, const char* path, const char* value, std::size_t size) {
  const int fd = ::openat(proc, path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    [[maybe_unused]] const auto wrote = ::write(fd, value, size);
    ::close(fd);
  }
}

int cover_proc(const CellState& state, int proc) {
  for (const ProcMask& mask : state.plan.proc_masks) {
    const int returned = mask.directory ? bind(state.sys_fd, "fs", proc, mask.path)
                                        : bind(AT_FDCWD, "/dev/null", proc, mask.path);
    if (returned != 0 && errno != ENOENT) {
      return errno;
    }
  }
  const int settings = ::open_tree(proc, "sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY;
  if (settings < 0 ||
      ::mount_setattr(settings, "", AT_EMPTY_PATH, &read_only, sizeof read_only) != 0 ||
      attach(settings, proc, "sys") != 0) {
    return errno;
  }
  return ::close(settings);
}

}  // namespace

int attach_layers(CellState& state) {
  for (std::size_t i = 0; i < state.plan.layer_count; ++i) {
    if (attach(state.mount_fds[i], AT_FDCWD, LayerName{i}.text) != 0) {
      return errno;
    }
  }
  return attach(state.mount_fds[state.plan.layer_count], AT_FDCWD, kStageUpper) != 0 ? errno : 0;
}

// By mount(2): one fsconfig string holds at most 255 bytes, too few for 64 layers.
int mount_overlay(CellState& state) {
  if (::mount("overlay", kStageRoot, "overlay", 0, state.plan.overlay_options) != 0) {
    return errno;
  }
  state.root_fd = ::open(kStageRoot, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return state.root_fd < 0 ? errno : 0;
}

int build_dev(CellState& state) {
  constexpr Option kDevOptions[] = {{"mode", "0755"}, {"size", "262144"}, {"nr_inodes", "512"}};
  const int dev = make_file_system("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, kDevOptions,
                                   std::size(kDevOptions));
  if (dev < 0 || attach_to_image(state, dev, "dev") != 0) {
    return errno;
  }
  const int error = make_dev_entries(dev);
  if (error != 0) {
    return error;
  }
  constexpr Option kPtsOptions[] = {
      {"newinstance", nullptr}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", "5"}};
  const Option shm_options[] = {
      {"mode", "1777"}, {"size", state.plan.shm_size}, {"nr_inodes", "65536"}};
  const struct {
    const char* type;
    const char* name;
    const Option* options;
    std::size_t count;
    unsigned attributes;
    bool optional;
  } mounts[] = {
      {"devpts", "pts", kPtsOptions, std::size(kPtsOptions), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
       false},
      {"tmpfs", "shm", shm_options, std::size(shm_options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
       false},
      // Kernels without POSIX message queues have no such file system.
      {"mqueue", "mqueue", nullptr, 0, kPlainMount, true},
  };
  for (const auto& entry : mounts) {
    const int fd = make_file_system(entry.type, entry.attributes, entry.options, entry.count);
    if (fd < 0 && entry.optional && errno == ENODEV) {
      continue;
    }
    if (fd < 0 || attach(fd, dev, entry.name) != 0) {
      return errno;
    }
    ::close(fd);
  }
  return ::close(dev);
}

int build_sys(CellState& state) {
  constexpr Option kSysOptions[] = {{"mode", "0755"}, {"size", "4096"}, {"nr_inodes", "32"}};
  state.sys_fd = make_file_system("tmpfs", kPlainMount, kSysOptions, std::size(kSysOptions));
  if (state.sys_fd < 0 || attach_to_image(state, state.sys_fd, "sys") != 0) {
    return errno;
  }
  constexpr const char* kDirectories[] = {
      "class",           "class/net",           "devices", "devices/system", "devices/system/cpu",
      "devices/virtual", "devices/virtual/net", "fs"};
  for (const char* name : kDirectories) {
    if (::mkdirat(state.sys_fd, name, 0755) != 0) {
      return errno;
    }
  }
  const int fresh = make_file_system("sysfs", kPlainMount | MOUNT_ATTR_RDONLY, nullptr, 0);
  // Attached to the stage for a moment: kernels before 6.15 cannot copy parts of a detached tree.
  if (fresh < 0 || attach(fresh, AT_FDCWD, kStageSys) != 0) {
    return errno;
  }
  constexpr const char* kShown[] = {"devices/system/cpu", "class/net", "devices/virtual/net"};
  for (const char* name : kShown) {
    if (bind(fresh, name, state.sys_fd, name) != 0) {
      return errno;
    }
  }
  ::close(fresh);
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY;
  return ::mount_setattr(state.sys_fd, "", AT_EMPTY_PATH, &read_only, sizeof read_only) != 0 ? errno
                                                                                             : 0;
}

int build_proc(CellState& state) {
  const int proc = make_file_system("proc", kPlainMount, nullptr, 0);
  if (proc < 0 || attach_to_image(state, proc, "proc") != 0) {
    return errno;
  }
  // Behind the seccomp rule: no user namespace may be made in the cell, by anyone, ever.
  write_sysctl(proc, "sys/user/max_user_namespaces", "0", 1);
  // As Docker does: port 80 needs no privilege, the network is the cell's own.
  write_sysctl(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0", 1);
  const int error = cover_proc(state, proc);
  ::close(proc);
  return error;
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
