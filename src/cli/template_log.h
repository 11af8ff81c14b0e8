// The log of a template in the making, shown while it comes.
#pragma once

#include <string>

#include "cli/api.h"
#include "cli/commands.h"

namespace atl::cli {

// Reads the answer to its end. The output of commands goes out as it is; with -o json the records
// do. An error that the log ends with is returned.
Task<int> show_template_log(CommandContext& context, http::ClientResponse& response,
                            std::string name);

}  // namespace atl::cli
