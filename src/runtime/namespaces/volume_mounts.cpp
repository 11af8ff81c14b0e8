// A mount point is a path in a tree that its sandbox wrote, so it is as hostile as any. It is
// resolved after the change of root, by the namespace's own root, with nothing of the host left to
// reach: links lead nowhere but into the cell. What a link could still do is to put a volume over
// /proc, /sys, /dev or another volume, whose covers must stay; hence no step may leave the mount of
// the root.
#include "runtime/namespaces/volume_mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"
#include "runtime/namespaces/cell_visit.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::size_t kMaxTargetBytes = 4000;
constexpr std::chrono::seconds kDetachTime{10};

// Links are followed as the cell's own programs would, but the way must not leave the root's mount.
int open_within(int root, const char* path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  return openat2_call(root, path, &how);
}

// Makes what is missing, one directory after the other. -1 and errno when it is no place for a
// volume.
int open_mount_point(int root, const char* path) {
  char so_far[kMaxTargetBytes + 1] = {};
  const std::size_t size = std::strlen(path);
  if (size > kMaxTargetBytes) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int parent = ::fcntl(root, F_DUPFD_CLOEXEC, 0);
  for (std::size_t end = 0; parent >= 0 && end < size;) {
    const std::size_t begin = end + 1;  // behind the slash
    end = begin;
    while (end < size && path[end] != '/') {
      ++end;
    }
    std::memcpy(so_far, path, end);
    int next = open_within(root, so_far);
    if (next < 0 && errno == ENOENT && ::mkdirat(parent, so_far + begin, 0755) == 0) {
      next = open_within(root, so_far);
    }
    const int error = errno;
    ::close(parent);
    errno = error;
    parent = next;
  }
  return parent;
}

bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int mount_volume(int root, int mount, const char* target) {
  const int point = open_mount_point(root, target);
  struct stat top{};
  struct stat found{};
  if (point < 0 || ::fstat(point, &found) != 0 || ::fstat(root, &top) != 0) {
    return errno;
  }
  if (same_file(top, found)) {
    return EBUSY;  // a link to the root itself
  }
  const int moved =
      ::move_mount(mount, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0
          ? errno
          : 0;
  ::close(point);
  return moved;
}

struct Detachment {
  int pidfd = -1;
  const char* target = nullptr;
  struct stat volume{};
};

// In a child of its own, because entering a user namespace is for a process with one thread. The
// node has many: only raw calls here.
int detach_in_child(const Detachment& detachment) {
  close_all_but(detachment.pidfd, -1);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (::setns(detachment.pidfd, CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
      ::syscall(SYS_setresgid, 0, 0, 0) != 0 || ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    return errno;
  }
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const int point = openat2_call(AT_FDCWD, detachment.target, &how);
  struct stat found{};
  if (point < 0 || ::fstat(point, &found) != 0) {
    return errno;
  }
  // Nothing else may be unmounted, whatever the cell puts in the way.
  if (!same_file(found, detachment.volume)) {
    return ENOENT;
  }
  return ::fchdir(point) != 0 || ::umount2(".", MNT_DETACH) != 0 ? errno : 0;
}

}  // namespace

int mount_volumes(CellState& state) {
  const std::size_t first = state.plan.layer_count + kMountsBesideLayers;
  const int root = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    return errno;
  }
  for (std::size_t i = 0; i < state.plan.mount_targets.size(); ++i) {
    const int error = mount_volume(root, state.mount_fds[first + i], state.plan.mount_targets[i]);
    if (error != 0) {
      return error;
    }
  }
  return ::close(root);
}

int enter_volume(CellState& state) {
  if (!state.plan.mount_is_root) {
    return 0;
  }
  return ::chroot(state.plan.mount_targets[0]) != 0 || ::chdir("/") != 0 ? errno : 0;
}

Result<> detach_volume(int pidfd, const VolumeMount& mount) {
  Detachment detachment{.pidfd = pidfd, .target = mount.target.c_str()};
  if (::stat(mount.source_dir.c_str(), &detachment.volume) != 0) {
    return fail_errno(concat("looking at ", mount.source_dir));
  }
  clone_args arguments{};
  arguments.exit_signal = 0;
  const long pid = clone3_call(&arguments);
  if (pid == 0) {
    ::_exit(detach_in_child(detachment));
  }
  if (pid < 0) {
    return fail_errno("starting a process to detach a volume");
  }
  const int error = wait_for_visitor(static_cast<int>(pid), kDetachTime);
  if (error == 0) {
    return {};
  }
  return fail(errno_error(concat("detaching a volume from ", mount.target), error));
}

}  // namespace atl::runtime::namespaces
