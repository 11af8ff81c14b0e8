// Turning the volume of an upper into the volume of a layer: the tree in its "upper" directory
// becomes the volume's own tree, and "work" goes.
//
// Only names at the top are moved, so it costs the same whatever the size of the tree. Not atomic:
// the caller does it under a temporary name.
#pragma once

#include <string>

#include "base/error.h"

namespace atl::layers {

// REQUIRES: nothing uses the volume, and it is writable.
Result<> promote_upper(int parent_fd, const std::string& name);

}  // namespace atl::layers
