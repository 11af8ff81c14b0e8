#include "runtime/namespaces/cell_visit.h"

#include <grp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

int enter_and_act(const Visit& visit, int pidfd, const std::function<int()>& act) {
  const int namespaces = CLONE_NEWUSER | CLONE_NEWNS | (visit.pid_namespace ? CLONE_NEWPID : 0);
  if (::setns(pidfd, namespaces) != 0 || ::syscall(SYS_setgroups, 0, nullptr) != 0 ||
      ::syscall(SYS_setresgid, 0, 0, 0) != 0 || ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    return errno;
  }
  if (!visit.pid_namespace) {
    return act();
  }
  const pid_t inside = ::fork();
  if (inside == 0) {
    ::_exit(act());
  }
  return inside < 0 ? errno : wait_for(inside);
}

}  // namespace

Result<> visit_cell(const Visit& visit, const std::function<int()>& act) {
  const Fd pidfd{pidfd_open_call(visit.pid)};
  if (!pidfd) {
    return fail_errno("finding a process of the cell");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(enter_and_act(visit, pidfd.get(), act));
  }
  if (child < 0) {
    return fail_errno("visiting a cell");
  }
  const int error = wait_for(child);
  return error == 0 ? Result<>{} : fail(errno_error("visiting a cell", error));
}

}  // namespace atl::runtime::namespaces
