// A directory tree as one compressed file (tar in zstd), and back.
//
// Entries are sorted by name and carry numeric owners, modes, links, all extended attributes and
// the zstd frame's own checksum, which unpacking verifies. Device nodes are not wanted in a layer
// and directories named as emptied are packed without their contents.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "image/room.h"

namespace atl::image {

// Writes `archive` and fsyncs it. Not atomic: the caller renames.
Result<> pack(const std::string& tree, const std::vector<std::string>& emptied_directories,
              const std::string& archive);

}  // namespace atl::image
