// Volumes as plain directories, where there is no btrfs: no limits, and deletion costs time.
#pragma once

#include <memory>

#include "layers/volumes.h"

namespace atl::layers {

// Probes whether files in the directory can share blocks (kReflink) or not (kCopy).
Result<std::unique_ptr<Volumes>> open_plain_volumes(int root_fd);

}  // namespace atl::layers
