// Only raw, async-signal-safe system calls here; see cell_plan.h.
#include "runtime/namespaces/own_descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/namespaces/cell_report.h"

namespace atl::runtime::namespaces {
namespace {

// The child begins with the node's own table of descriptors, not with a copy: with thousands of
// cells a copy, and closing it again, would be most of a create. The first thing it does is to take
// one of its own, of what lies below the descriptors it needs (the node keeps what lives long
// above, see base/long_lived_fd.h). Then it says so: until then the node closes none of them.
int leave_shared_descriptors(CellState& state) {
  int last = state.channel_fd;
  for (const int fd : state.plan.cgroup_fds) {
    last = fd > last ? fd : last;
  }
  return ::syscall(SYS_close_range, static_cast<unsigned>(last) + 1, ~0U, CLOSE_RANGE_UNSHARE) != 0
             ? errno
             : 0;
}

// Where the guest will listen. Made here, because a socket stays in the network namespace it was
// made in, and who dumps the cell looks for it there. It gets its name from the node: named here it
// would hold this process's copy of the host's mounts, all of them, as long as the cell lives.
int open_listener(CellState& state) {
  // A guest that starts sets the mode itself; one that is restored has done so.
  const int mode = state.plan.restore ? SOCK_NONBLOCK : 0;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | mode, 0);
  state.listen_fd = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstKeptFd);
  if (state.listen_fd < 0) {
    return errno;
  }
  ::close(fd);
  return 0;
}

}  // namespace

// Other threads' creates may be under way: without this, this child would keep their channels
// open and hide the end of file that tells their children that the node died.
int close_other_descriptors(CellState& state) {
  if (const int error = leave_shared_descriptors(state); error != 0) {
    return error;
  }
  state.channel_fd = ::fcntl(state.channel_fd, F_DUPFD_CLOEXEC, kFirstKeptFd);
  if (state.channel_fd < 0) {
    return errno;
  }
  int kept[kMaxCgroupFds + 1] = {state.channel_fd};
  std::size_t count = 1;
  for (const int fd : state.plan.cgroup_fds) {
    kept[count++] = fd;
  }
  for (std::size_t i = 1; i < count; ++i) {  // insertion sort: no library calls here
    for (std::size_t j = i; j > 0 && kept[j] < kept[j - 1]; --j) {
      const int swapped = kept[j];
      kept[j] = kept[j - 1];
      kept[j - 1] = swapped;
    }
  }
  unsigned from = 0;
  for (std::size_t i = 0; i <= count; ++i) {
    const unsigned until = i < count ? static_cast<unsigned>(kept[i]) : ~0U;
    if (until > from && ::syscall(SYS_close_range, from, until - (i < count ? 1 : 0), 0) != 0) {
      return errno;
    }
    from = until + 1;
  }
  if (const int error = open_listener(state); error != 0) {
    return error;
  }
  return send_own_descriptors(state.channel_fd, state.listen_fd);
}

}  // namespace atl::runtime::namespaces
