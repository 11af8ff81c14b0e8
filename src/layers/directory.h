// Directories held by descriptor: opened without following links, listed, probed.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace atl::layers {

// Opens a directory below `parent_fd` (or an absolute path with AT_FDCWD); never through a symlink
// in its last component.
Result<Fd> open_directory(int parent_fd, const std::string& name);
// The same, made first (mode 0700, root) when missing. Refuses one that somebody else could write.
Result<Fd> open_private_directory(int parent_fd, const std::string& name);
// The names in it, without "." and "..".
Result<std::vector<std::string>> list_names(int directory_fd);
bool has_directory(int parent_fd, const std::string& name);

}  // namespace atl::layers
