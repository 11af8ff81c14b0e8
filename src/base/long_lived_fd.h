// Descriptors that live as long as a cell, or wait for long, get high numbers.
//
// A cell's first process takes a copy of the node's table of descriptors up to the last one it
// needs (runtime/namespaces/own_descriptors.cpp). With those of all cells above, what is below are
// a few dozen, however many cells there are.
#pragma once

#include <fcntl.h>

#include "base/fd.h"

namespace atl {

inline constexpr int kFirstLongLivedFd = 1024;

// The same file under a high number; under its own where the process may have none that high.
inline Fd keep_long(Fd fd) {
  Fd high{fd ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstLongLivedFd) : -1};
  return high ? std::move(high) : std::move(fd);
}

}  // namespace atl
