// Removing and measuring trees whose shape a sandbox chose.
//
// Neither follows a symlink, leaves the file system it began in, nor uses more than kMaxWalkDepth
// descriptors or any recursion, whatever the depth of the tree: a branch that is too deep is moved
// up next to the root of the tree and removed from there.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace atl::layers {

// Idempotent. `name` may be any kind of file.
Result<> remove_tree(int parent_fd, const std::string& name);
// The bytes its files occupy on disk. Fails for a tree deeper than kMaxWalkDepth.
Result<std::uint64_t> measure_tree(int parent_fd, const std::string& name);

}  // namespace atl::layers
