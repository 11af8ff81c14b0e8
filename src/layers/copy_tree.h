// Copying a tree whose shape a sandbox chose: what a snapshot is where the file system has none.
//
// Everything an overlay's upper can hold arrives as it was: modes, owners, times, extended
// attributes, holes, hard links inside the tree, symlinks, fifos, sockets, whiteouts. Blocks are
// shared where the file system can. No link is followed and no mount point entered.
#pragma once

#include <string>

#include "base/error.h"

namespace atl::layers {

struct TreePlace {
  int parent_fd = -1;
  std::string name;  // one path component
};

// Makes `to`, which must not exist, a copy of the directory `from`. Fails for a tree deeper than
// kMaxWalkDepth; what was copied until a failure stays, for the caller to remove.
Result<> copy_tree(const TreePlace& from, const TreePlace& to);

}  // namespace atl::layers
