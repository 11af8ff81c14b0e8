// What the file routes share: which path of which user a request means, and how a file is told.
//
// Paths are made absolute and clean by their text alone ("." and ".." and doubled slashes go, as
// in Go's path.Clean), the same on every route; what they then lead to is the guest's business. A
// slash at the end stays: it says that a directory is meant.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "control/files.h"
#include "guest/wire.h"

namespace atl::service::native {

struct FileTarget {
  std::string requested;  // as the caller wrote it
  std::string path;       // absolute
  std::string user;
};

// "." -> the default directory, "a/../b/" -> "/workspace/b/".
std::string absolute_path(std::string_view path, const control::FileDefaults& defaults);
// From ?path= and ?user=; a path is required unless `fallback` is given.
Result<FileTarget> parse_file_target(std::string_view query, const control::FileDefaults& defaults,
                                     std::string_view fallback = {});

std::string_view file_type_text(guest::FileType type);
std::string_view file_event_name(guest::FileEventType type);
Json file_json(const guest::FileInfo& info);

// For what only a guest can do; else says so.
Result<control::GuestClient> guest_of(const control::Files& files);
// "0644", "4755".
std::string mode_text(std::uint32_t mode);

}  // namespace atl::service::native
