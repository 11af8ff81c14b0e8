// Searching the files of a sandbox by name or by content.
#pragma once

#include "cli/api.h"
#include "cli/commands.h"

namespace atl::cli {

// Prints what there is; false: nothing.
Task<bool> search_place(CommandContext& context, Api& api, SandboxPlace place,
                        const FilesOptions& options);

}  // namespace atl::cli
