// How the child comes to a table of descriptors of its own, with nothing in it that it does not
// need.
#pragma once

#include "runtime/namespaces/cell_root.h"

namespace atl::runtime::namespaces {

inline constexpr int kFirstKeptFd = 32;  // above everything the guest or criu gets

// The child's first step. Returns 0 or an errno.
int close_other_descriptors(CellState& state);

}  // namespace atl::runtime::namespaces
