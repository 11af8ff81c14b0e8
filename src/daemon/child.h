// One child of the supervisor: this executable again, with an internal command.
//
// A child inherits only the descriptors that are named. It says that it is ready by one line on a
// pipe ("ready" and what else it has to say); when it ends, or hangs up without a word, the pipe
// closes. It dies with the supervisor. It has an own process group, so that a Ctrl-C of the
// terminal reaches the supervisor only, and it starts with SIGTERM blocked, so that one that comes
// early waits until the child can handle it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace atl::daemon {

struct ReadyPipe {
  Fd read_end;   // ours, non-blocking
  Fd write_end;  // the child's
};
Result<ReadyPipe> make_ready_pipe();

// REQUIRES: this process has one thread.
Result<pid_t> start_child(const std::vector<std::string>& words,
                          const std::vector<int>& inherited_fds);

// In the child: what it tells the supervisor.
Result<> report_ready(int ready_fd, std::string_view detail);

// In a process that a test wants to fail: where the orders are. None: does nothing.
Result<> follow_faults(int fault_fd);
// Descriptors come inheritable from the supervisor; the child's own children must not get them.
void stop_inheriting(int fd);

// "exit status 3", "signal 9 (Killed)"
std::string describe_end(int wait_status);

}  // namespace atl::daemon
