#include "daemon/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fault_point.h"
#include "base/strings.h"

namespace atl::daemon {
namespace {

constexpr int kExecFailed = 127;

[[noreturn]] void run_child(pid_t supervisor, char* const* argv,
                            const std::vector<int>& inherited_fds) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != supervisor) {
    ::_exit(kExecFailed);
  }
  ::setpgid(0, 0);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  for (const int fd : inherited_fds) {
    ::fcntl(fd, F_SETFD, 0);
  }
  ::execv("/proc/self/exe", argv);
  ::_exit(kExecFailed);
}

}  // namespace

Result<ReadyPipe> make_ready_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("making a pipe");
  }
  ReadyPipe pipe{Fd{ends[0]}, Fd{ends[1]}};
  TRY_DO(set_nonblocking(pipe.read_end.get(), true));
  return pipe;
}

Result<pid_t> start_child(const std::vector<std::string>& words,
                          const std::vector<int>& inherited_fds) {
  std::vector<char*> argv{const_cast<char*>("atoll")};
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t supervisor = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    run_child(supervisor, argv.data(), inherited_fds);
  }
  if (pid < 0) {
    return fail_errno("starting a process");
  }
  return pid;
}

Result<> report_ready(int ready_fd, std::string_view detail) {
  TRY_DO(write_all(ready_fd, concat("ready ", detail, "\n")));
  ::close(ready_fd);
  return {};
}

void stop_inheriting(int fd) {
  if (fd >= 0) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

Result<> follow_faults(int fault_fd) {
  if (fault_fd < 0) {
    return {};
  }
  const Fd plan{fault_fd};
  return fault::follow_plan(plan.get());
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* name = ::sigdescr_np(number);
    return concat("signal ", number, " (", name != nullptr ? name : "unknown", ")");
  }
  return concat("exit status ", WEXITSTATUS(wait_status));
}

}  // namespace atl::daemon
