// Formatting, the one thing here that needs a program: mkfs.btrfs from btrfs-progs.
#pragma once

#include <string>

#include "base/error.h"

namespace atl::layers {

Result<> format_btrfs(const std::string& path);

}  // namespace atl::layers
