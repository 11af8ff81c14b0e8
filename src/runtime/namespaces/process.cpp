#include "runtime/namespaces/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/strings.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

constexpr int kKillTimeoutMs = 20'000;
constexpr std::size_t kStartTimeIndex = 19;  // counted from the state, which is field 3

}  // namespace

Result<std::uint64_t> parse_start_time(std::string_view stat) {
  const auto name_end = stat.rfind(") ");
  if (name_end != std::string_view::npos) {
    const auto fields = split(trim(stat.substr(name_end + 2)), ' ');
    if (fields.size() > kStartTimeIndex) {
      if (const auto value = parse_u64(fields[kStartTimeIndex])) {
        return *value;
      }
    }
  }
  return fail(Code::kInternal, "a process's stat file has an unknown form");
}

Result<Fd> open_process(int pid, std::uint64_t start_time) {
  if (pid <= 1) {
    return fail(Code::kNotFound, "no such process");
  }
  // First the pidfd, then the check: afterwards the number cannot become another process's.
  Fd pidfd{pidfd_open_call(pid)};
  if (!pidfd) {
    return fail(Code::kNotFound, concat("process ", pid, " is gone"));
  }
  const auto stat = read_file(concat("/proc/", pid, "/stat"));
  if (!stat) {
    return fail(Code::kNotFound, concat("process ", pid, " is gone"));
  }
  TRY(const std::uint64_t found, parse_start_time(*stat));
  if (found != start_time) {
    return fail(Code::kNotFound, concat("process ", pid, " is another one now"));
  }
  return pidfd;
}

bool is_dead(int pidfd) {
  pollfd waiting{pidfd, POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

Result<> kill_process(int pidfd) {
  if (pidfd_send_signal_call(pidfd, SIGKILL) != 0 && errno != ESRCH) {
    return fail_errno("killing a cell");
  }
  return {};
}

Result<> wait_until_dead(int pidfd) {
  pollfd waiting{pidfd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, kKillTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return fail(Code::kDeadlineExceeded, "a killed cell does not end: it is stuck in the kernel");
  }
  siginfo_t info{};
  // ECHILD: an earlier process of ours made it, its reaper is somebody else.
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | __WALL | WNOHANG) != 0 &&
      errno != ECHILD) {
    return fail_errno("reaping a cell");
  }
  return {};
}

}  // namespace atl::runtime::namespaces
