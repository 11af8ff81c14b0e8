// Directories held by descriptor: opened without following links, listed, probed.
#pragma once

#include <cstdint>
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

// A directory of exactly this mode, whatever our umask.
Result<> make_directory(int parent_fd, const char* name, unsigned mode);
// Within one directory; kAlreadyExists when `to` is there.
Result<> rename_new(int directory_fd, const std::string& from, const std::string& to);
// What its file system has left for us.
Result<std::uint64_t> free_bytes_at(const std::string& path);

}  // namespace atl::layers
