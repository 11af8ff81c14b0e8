#include "runtime/namespaces/cell_restore.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/signals.h"
#include "runtime/namespaces/cell_report.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {

int point_streams_at_null() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) {
    return errno;
  }
  for (int fd = 0; fd <= 2; ++fd) {
    if (null != fd && ::dup2(null, fd) < 0) {
      return errno;
    }
  }
  return null <= 2 && ::fcntl(null, F_SETFD, 0) != 0 ? errno : 0;
}

int write_restore_settings(CellState& state) {
  const int fd = ::open(kRestoreSettings, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return errno;
  }
  const std::size_t size = std::strlen(state.plan.restore_settings);
  const ssize_t wrote = ::write(fd, state.plan.restore_settings, size);
  ::close(fd);
  return wrote == static_cast<ssize_t>(size) ? 0 : ENOSPC;
}

// Clocks that go on from where they stood, for whoever is born after this: the restored processes.
int enter_time_namespace(CellState& state) {
  if (state.plan.time_offsets == nullptr) {
    return 0;
  }
  // After its change of identity its own /proc entries belong to the host's root.
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (::unshare(CLONE_NEWTIME) != 0) {
    return errno;
  }
  const int fd = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  const std::size_t size = std::strlen(state.plan.time_offsets);
  const ssize_t wrote = ::write(fd, state.plan.time_offsets, size);
  const int error = wrote == static_cast<ssize_t>(size) ? 0 : errno;
  ::close(fd);
  return error;
}

int arrange_restore_descriptors(CellState& state) {
  if (const int error = point_streams_at_null(); error != 0) {
    return error;
  }
  if (::dup2(state.listen_fd, kRestoreListenFd) < 0 ||
      ::dup2(state.channel_fd, kRestoreChannelFd) < 0) {
    return errno;
  }
  ::fcntl(state.channel_fd, F_SETFD, FD_CLOEXEC);
  if (::syscall(SYS_close_range, 3, kRestoreListenFd - 1, 0) != 0) {
    return errno;
  }
  return ::syscall(SYS_close_range, kRestoreChannelFd + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0 ? errno
                                                                                          : 0;
}

// The node puts back what was in /dev/shm before it says go.
int wait_for_go(CellState& state) {
  if (const int error = send_ready(state.channel_fd, state.network_fds); error != 0) {
    return error;
  }
  char go = 0;
  const ssize_t got = ::recv(state.channel_fd, &go, sizeof go, 0);
  return got == sizeof go ? 0 : (got < 0 ? errno : EPIPE);
}

// By its own loader, with its own libraries, told to read no file of the cell. It keeps the
// capabilities of the cell's user namespace: they are what a restore takes.
int start_criu(CellState& state) {
  (void)state;
  reset_signals();
  char loader[] = "/dev/.restore/tools/ld.so";
  char path_option[] = "--library-path";
  char path[] = "/dev/.restore/tools/lib";
  char program[] = "/dev/.restore/tools/criu";
  char mode[] = "swrk";
  char channel[] = "21";
  static_assert(kRestoreChannelFd == 21);
  char no_settings[] = "--no-default-config";
  char* const arguments[] = {loader, path_option, path,        program,
                             mode,   channel,     no_settings, nullptr};
  char* const environment[] = {nullptr};
  ::execve(loader, arguments, environment);
  return errno;
}

}  // namespace atl::runtime::namespaces
