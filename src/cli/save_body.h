// What the server sends into a local file, whole or not at all, or to standard output.
#pragma once

#include <string>

#include "cli/commands.h"

namespace atl::cli {

// `destination` may be "-". `doing` begins the progress line. The exit status, as of a command.
Task<int> save_body(CommandContext& context, std::string path, std::string destination,
                    std::string doing);

}  // namespace atl::cli
