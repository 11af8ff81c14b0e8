// Descriptors that strangers passed to us, and where they are closed: never on a loop.
//
// The last close of a file that was removed frees its blocks before it returns. How many there are,
// and so for how many seconds, is up to whoever wrote the file, in a sandbox. So such descriptors
// are closed by threads that do nothing else. What waits for them is bounded by those who receive:
// one descriptor for each request, and no requests for more while many wait (closing_elsewhere()).
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace atl::io {

// Returns at once. Any thread.
void close_elsewhere(Fd fd);

struct Closing {
  std::size_t waiting = 0;   // not closed yet
  std::uint64_t closed = 0;  // so far, by those threads
};
Closing closing_elsewhere();

// An Fd whose end is close_elsewhere().
class ForeignFd {
 public:
  ForeignFd() = default;
  explicit ForeignFd(Fd fd) : fd_(std::move(fd)) {}
  ForeignFd(ForeignFd&&) = default;
  ForeignFd& operator=(ForeignFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::move(other.fd_);
    }
    return *this;
  }
  ForeignFd(const ForeignFd&) = delete;
  ForeignFd& operator=(const ForeignFd&) = delete;
  ~ForeignFd() { reset(); }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void reset() {
    if (fd_) {
      close_elsewhere(std::move(fd_));
    }
  }
  // For whoever fills it, and for whoever knows by now that it may be closed anywhere.
  Fd& plain() { return fd_; }

 private:
  Fd fd_;
};

}  // namespace atl::io
