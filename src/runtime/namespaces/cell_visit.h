// A short visit to a cell: a child of the node that enters the cell's namespaces, does one thing as
// the cell's root, and ends. What it does is plain system calls and memory of its own; it is forked
// by the C library, which keeps its allocator usable in the child, and takes no lock of ours.
#pragma once

#include <functional>

#include "base/error.h"

namespace atl::runtime::namespaces {

struct Visit {
  int pid = 0;                 // a process of the cell
  bool pid_namespace = false;  // enter that too, which takes a process more
};

// `act` returns 0 or an errno.
Result<> visit_cell(const Visit& visit, const std::function<int()>& act);

}  // namespace atl::runtime::namespaces
