// Fd: one owner of one descriptor. Every descriptor in Atoll is close-on-exec from birth; what a
// child shall inherit is named at spawn.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace atl {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();
  Result<Fd> duplicate() const;

 private:
  int fd_ = -1;
};

// Reads a whole small file (a /proc or /sys file, a record). Fails above `max_bytes`.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 1U << 20);
Result<std::string> read_file_at(int dir_fd, const std::string& path,
                                 std::size_t max_bytes = 1U << 20);
// Writes to an existing file in one write(2): what /proc and cgroup files want.
Result<> write_existing(const std::string& path, std::string_view content);
Result<> write_existing_at(int dir_fd, const std::string& path, std::string_view content);
// Creates or replaces `path` atomically (temporary file in the same directory, rename).
// `durable` also fsyncs file and directory before returning.
struct ReplaceOptions {
  unsigned mode = 0600;
  bool durable = false;
};
Result<> replace_file(const std::string& path, std::string_view content, ReplaceOptions options);
// write(2) until everything is written; for blocking descriptors.
Result<> write_all(int fd, std::string_view content);
Result<> set_nonblocking(int fd, bool on);

}  // namespace atl
