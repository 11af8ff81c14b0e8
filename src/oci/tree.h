// Trees on their way into a sandbox: entries, each file followed by its bytes, pulled one by one.
//
// A TreeSource hides where they come from (the layers of an image, a build context, an archive that
// ADD unpacks). Paths are clean and relative. A source is used by one thread at a time and blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "oci/archive.h"

namespace atl::oci {

class TreeSource {
 public:
  virtual ~TreeSource() = default;
  // The next entry; nullopt at the end. One of type kSkipped is nothing to write, only a moment to
  // pause. The target of a hard link is an entry that came before.
  virtual Result<std::optional<ArchiveEntry>> next() = 0;
  // Bytes of the file at hand; 0 when all have been read. All must be read before next().
  virtual Result<std::size_t> read(std::span<char> buffer) = 0;
};

}  // namespace atl::oci
