#include "runtime/namespaces/cell_visit.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

using Clock = std::chrono::steady_clock;

int reap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, __WALL) < 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

int enter_and_act(const Visit& visit, const std::function<int()>& act) {
  close_all_but(visit.pidfd, visit.kept_fd);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const int namespaces = CLONE_NEWUSER | CLONE_NEWNS | (visit.pid_namespace ? CLONE_NEWPID : 0);
  if (::setns(visit.pidfd, namespaces) != 0 || ::syscall(SYS_setgroups, 0, nullptr) != 0 ||
      ::syscall(SYS_setresgid, 0, 0, 0) != 0 || ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    return errno;
  }
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // a change of identity may have set it
  ::close(visit.pidfd);
  if (!visit.pid_namespace) {
    return act();
  }
  const pid_t inside = ::fork();
  if (inside == 0) {
    // Its parent is in another pid namespace, so one that is gone already has no pid to compare.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    ::_exit(act());
  }
  return inside < 0 ? errno : reap(inside);
}

}  // namespace

void close_all_but(int one, int other) {
  unsigned first = 3;
  for (const int kept : {std::min(one, other), std::max(one, other)}) {
    if (kept >= static_cast<int>(first)) {
      if (kept > static_cast<int>(first)) {
        ::syscall(SYS_close_range, first, static_cast<unsigned>(kept) - 1, 0);
      }
      first = static_cast<unsigned>(kept) + 1;
    }
  }
  ::syscall(SYS_close_range, first, ~0U, 0);
}

int wait_for_visitor(int child, std::chrono::seconds time_limit) {
  const Fd pidfd{pidfd_open_call(child)};
  const auto deadline = Clock::now() + time_limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ended{pidfd.get(), POLLIN, 0};
    const int ready = ::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) {
      return reap(child);
    }
    if (ready == 0 || errno != EINTR) {
      ::kill(child, SIGKILL);  // our own child, not reaped yet: the pid is its
      (void)reap(child);
      return ETIMEDOUT;
    }
  }
}

Result<> visit_cell(const Visit& visit, const std::function<int()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(enter_and_act(visit, act));
  }
  if (child < 0) {
    return fail_errno("visiting a cell");
  }
  const int error = wait_for_visitor(child, visit.time_limit);
  return error == 0 ? Result<>{} : fail(errno_error("visiting a cell", error));
}

}  // namespace atl::runtime::namespaces
