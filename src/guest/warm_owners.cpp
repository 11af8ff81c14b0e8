#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/identity.h"
#include "guest/limits.h"
#include "guest/process.h"
#include "guest/spawn.h"
#include "guest/warm_headroom.h"
#include "guest/warm_owning.h"
#include "guest/warm_stopped.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxStatusFileBytes = std::size_t{64} * 1024;

// Who a process is, as the lines of its status say it; one worker serves all that are the same.
struct Rights {
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups;
  auto operator<=>(const Rights&) const = default;
};

std::map<Rights, std::vector<pid_t>> find_processes() {
  std::map<Rights, std::vector<pid_t>> found;
  const pid_t self = ::getpid();
  for (const pid_t pid : numbers_in("/proc")) {
    const auto status = read_file(concat("/proc/", pid, "/status"), kMaxStatusFileBytes);
    if (pid == 1 || pid == self || !status) {
      continue;
    }
    const auto users = numbers_of(*status, "Uid:");
    const auto groups = numbers_of(*status, "Gid:");
    if (!users.empty() && !groups.empty()) {
      Rights rights{static_cast<uid_t>(users[0]), static_cast<gid_t>(groups[0]), {}};
      for (const std::uint64_t group : numbers_of(*status, "Groups:")) {
        rights.groups.push_back(static_cast<gid_t>(group));
      }
      found[std::move(rights)].push_back(pid);
    }
  }
  return found;
}

}  // namespace

void run_owning_worker() {
  close_from(0);
  raise_oom_score();
  const std::int64_t own_by_ms = monotonic_ms() + kOwningMs;
  for (const auto& [rights, pids] : find_processes()) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Identity identity{.uid = rights.user, .gid = rights.group, .groups = rights.groups};
      if (assume_identity(identity)) {
        for (const pid_t pid : pids) {
          if (monotonic_ms() >= own_by_ms) {
            break;
          }
          // What it could not do, the dump finds and says.
          (void)own_memory(pid, owning_time(own_by_ms));
        }
      }
      ::_exit(0);
    }
    if (child > 0) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
    }
  }
  ::_exit(0);
}

}  // namespace atl::guest
