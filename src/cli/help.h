// The examples shown below the help of each command, and the summary of the program.
#pragma once

#include <string_view>

namespace atl::cli {

struct CommandHelp {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;
  std::string_view examples;
};

// Empty texts for an unknown name.
CommandHelp help_of(std::string_view command);

inline constexpr std::string_view kProgramSummary =
    "Atoll: sandboxes for code that you have not read, on your own machine.";
extern const std::string_view kProgramExamples;

}  // namespace atl::cli
