// The child's half of a spawn: environment, working directory, PATH lookup, exec.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "guest/identity.h"

namespace atl::guest {

inline constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// `env` with HOME, USER, LOGNAME, SHELL, PATH (and TERM for a terminal) added when absent.
std::vector<std::string> complete_environment(std::vector<std::string> env,
                                              const Identity& identity, bool terminal);
// Changes to `cwd`, or to the home directory (or /) when it is empty. Returns where it is.
Result<std::string> enter_directory(const std::string& cwd, const Identity& identity);
// Replaces this process. Returns only on failure.
Error execute(const std::vector<std::string>& argv, const std::vector<std::string>& env);

}  // namespace atl::guest
