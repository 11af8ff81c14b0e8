// A short visit to a cell: a child of the node that enters the cell's namespaces, does one thing as
// the cell's root, and ends. What it does is plain system calls and memory of its own; it is forked
// by the C library, which keeps its allocator usable in the child, and takes no lock of ours.
//
// Inside it is among processes that may be hostile: it brings no descriptor along but the one it
// works with, nobody can trace it, and it is killed when it takes too long.
#pragma once

#include <chrono>
#include <functional>

#include "base/error.h"

namespace atl::runtime::namespaces {

struct Visit {
  int pidfd = -1;              // a process of the cell
  bool pid_namespace = false;  // enter that too, which takes a process more
  int kept_fd = -1;            // what `act` uses
  std::chrono::seconds time_limit{60};
};

// `act` returns 0 or an errno.
Result<> visit_cell(const Visit& visit, const std::function<int()>& act);

// In a visitor: closes everything but standard streams and these two; -1 stands for none.
void close_all_but(int one, int other);
// Waits for a child of ours; kills it when the time is over. 0 or an errno.
int wait_for_visitor(int child, std::chrono::seconds time_limit);

}  // namespace atl::runtime::namespaces
