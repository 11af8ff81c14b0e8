// Where the library is that criu is loaded with: beside the executable.
#pragma once

#include <string>

namespace atl::daemon {

// Empty when it is not there: then criu runs without it, which many hosts allow.
std::string find_criu_adapter();

}  // namespace atl::daemon
