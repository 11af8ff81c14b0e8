// Files as E2B's messages tell them.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "guest/wire.h"

namespace atl::service::e2b::envd {

// Metadata of files are extended attributes with this prefix.
inline constexpr std::string_view kMetadataPrefix = "user.e2b.";

// EntryInfo. REQUIRES: `info` has its details.
Json entry_json(const guest::FileInfo& info);
// As Go's FileMode tells it: "-rw-r--r--", "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx".
std::string permissions_text(guest::FileType type, std::uint32_t mode);
Json metadata_json(const std::vector<guest::Attribute>& attributes);

// FilesystemEvent; `root` is the directory that is watched. kOverflow has none.
Json file_event_json(const guest::FileEvent& event, std::string_view root);
// It is about a file that an upload passes through, and nothing that a client knows of.
bool is_passing(const guest::FileEvent& event);
// The file is there after it, so it can be described.
bool has_entry(guest::FileEventType type);

}  // namespace atl::service::e2b::envd
