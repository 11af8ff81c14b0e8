// What the parts of `atoll volume` share.
#pragma once

#include <string>
#include <string_view>

#include "cli/api.h"
#include "cli/commands.h"

namespace atl::cli {

// Percent-encoded; without an id the path of all volumes.
std::string volume_path(std::string_view id, std::string_view rest = {});

// `atoll volume cp`: one side is VOLUME:/path, the other is here. No sandbox need run.
Task<int> copy_volume_files(CommandContext& context, const VolumeOptions& options);

}  // namespace atl::cli
