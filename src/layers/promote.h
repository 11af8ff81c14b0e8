// Turning the volume of an upper into the volume of a layer: the tree in its "upper" directory
// becomes the volume's own tree, and "work" goes.
//
// And back, for when what follows fails.
//
// Only names at the top are moved, so it costs the same whatever the size of the tree. Not atomic:
// the caller does it under a temporary name.
#pragma once

#include <string>

#include "base/error.h"

namespace atl::layers {

// REQUIRES: nothing uses the volume, and it is writable.
// When it fails, the volume is that of an upper again, unless putting it back failed as well: the
// error says so then.
Result<> promote_upper(int parent_fd, const std::string& name);
// The inverse, of a volume that promote_upper has made.
Result<> demote_layer(int parent_fd, const std::string& name);

}  // namespace atl::layers
