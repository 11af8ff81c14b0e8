// Starting one program.
//
// The parent makes pipes or a terminal and forks; everything that depends on the sandbox's files
// (accounts, working directory, PATH) happens in the child, so PID 1 never waits for a disk. The
// child reports through a close-on-exec pipe: first where and as whom it runs, then either an
// error or, by a successful exec, the end of the pipe. So a program that could not start is an
// error and never a made-up exit code.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/wire.h"

namespace atl::guest {

struct Spawned {
  pid_t pid = -1;  // leader of its own session and process group
  Fd status;       // read to the end, then parse_status()
  Fd input;        // standard input or the terminal; empty when there is none
  Fd output;       // standard output; empty with a terminal
  Fd error_output;
  Fd terminal;  // the master side
  Fd channel;   // the other end of the child's descriptor 3; empty when there is none
};

// All descriptors of the result are non-blocking. `file_limit` is the RLIMIT_NOFILE for the child.
Result<Spawned> spawn(const SpawnRequest& request, const rlimit& file_limit);

struct StartReport {
  std::string cwd;
  std::string user;
};
Result<StartReport> parse_status(std::string_view status);
// What a child writes to its status pipe.
std::string encode_report(const StartReport& report);
std::string encode_start_failure(const Error& error);
std::unexpected<Error> cannot_fork(int error_number);

// In a fresh child: closes every descriptor from `first` on.
void close_from(int first);
// In a fresh child: makes it a better victim than the agent when memory runs out.
void raise_oom_score();

}  // namespace atl::guest
