// One run of one program of the system (skopeo) as this process's own user.
//
// No shell: an argument is an argument. The child gets /dev/null as input, one pipe for both
// outputs, no other descriptor, default signals, a clean environment, a bound on the size of files
// it writes. It is killed when the task is cancelled. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "io/reactor.h"

namespace atl::oci {

struct Tool {
  std::vector<std::string> argv;         // argv[0] is looked up in the usual places
  std::vector<std::string> environment;  // "NAME=value", added to the clean base
  std::uint64_t max_file_bytes = 0;      // 0: no bound
  std::function<void(std::string_view line)> on_line;
  std::string missing_advice;  // "install it with: ..."
};

// Fails when it cannot be started, exits non-zero or dies of a signal; the message ends with the
// last lines it wrote.
Task<> run_tool(io::Reactor& reactor, Tool tool);

}  // namespace atl::oci
