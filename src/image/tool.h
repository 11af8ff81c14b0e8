// One run of one system tool (mmdebstrap, tar): explicit arguments, a clean environment, its output
// line by line.
//
// There is no shell anywhere: an argument is an argument, whatever bytes it holds. The child gets
// /dev/null as input, two pipes, no other descriptor, default signal handling, and exactly the
// environment named here. Output is bounded: a line is cut at kToolLineBytes, and of standard error
// only the last lines are remembered, for the error message.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::image {

inline constexpr std::size_t kToolLineBytes = 4096;
inline constexpr std::size_t kToolTailLines = 3;

struct Tool {
  std::vector<std::string> argv;         // argv[0] is looked up in kToolPath
  std::vector<std::string> environment;  // "NAME=value", added to the clean base
  // Called for each line of standard output and standard error, without its end.
  std::function<void(std::string_view line)> on_line;
};

// Runs the tool to its end. Fails when it cannot be started, exits non-zero or dies of a signal;
// the message names the tool and ends with the last lines it wrote to standard error.
Result<> run_tool(const Tool& tool);

}  // namespace atl::image
