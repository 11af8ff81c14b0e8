// A process whose threads all stand still, and system calls made in its name.
//
// Between two calls the process is as it was: its own registers, its own signal mask, at a stop on
// the kernel's way out to it. Whenever the tracer ends there, for whatever reason, the process goes
// on in the middle of what it did. Whether a system call that the stop interrupted is made again or
// fails with EINTR is left to the kernel, which decides after the stop. Only for the moment of a
// call the process is not itself; a tracer that is killed in that moment takes it along, since
// nothing could say any more what it was about to do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "guest/warm_live.h"

namespace atl::guest {

std::unexpected<Error> cannot_own(std::string why);
// The numbers that are the names of entries: processes in /proc, threads in its task.
std::vector<pid_t> numbers_in(const std::string& directory);

class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t pid) : pid_(pid) {}
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;
  ~StoppedProcess();  // they go on, each where it was

  // REQUIRES: SIGCHLD is blocked.
  Result<> stop(std::int64_t deadline_ms);
  // Makes the first thread call the kernel. However this ends, the process is itself again, or
  // dead; so nothing in here gives up after a time. kNotFound: it is dead.
  Result<std::uint64_t> call(std::uint64_t instruction, const KernelCall& call);
  void kill();

 private:
  Result<> stop_thread(pid_t thread, std::int64_t deadline_ms);
  Result<> wait_for_stop(pid_t thread, std::int64_t deadline_ms);
  Result<> make_call(std::uint64_t instruction, const KernelCall& call);
  Result<> become_itself();
  Result<int> wait(pid_t thread, std::int64_t deadline_ms);

  const pid_t pid_;
  std::vector<pid_t> threads_;
  std::string registers_;  // of the first thread
  std::uint64_t mask_ = 0;
  bool stop_it_again_ = false;  // a SIGSTOP came during a call
};

}  // namespace atl::guest
