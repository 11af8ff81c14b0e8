// TemporaryFile: a local file that vanishes unless it was published under its name.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/fd.h"
#include "base/random.h"
#include "base/strings.h"

namespace atl::cli {

inline constexpr unsigned kTemporaryNameHexDigits = 12;

class TemporaryFile {
 public:
  TemporaryFile(int directory, unsigned mode)
      : directory_(directory), name_(concat(".atoll-", random_hex(kTemporaryNameHexDigits))) {
    // Always writable by us, whatever mode the sandbox claims; the umask applies.
    fd_ =
        Fd{::openat(directory, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    (mode & 0777U) | 0600U)};
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_) {
      ::unlinkat(directory_, name_.c_str(), 0);
    }
  }
  bool is_open() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  Result<> publish(const std::string& name) {
    if (::renameat(directory_, name_.c_str(), directory_, name.c_str()) != 0) {
      return fail_errno(name);
    }
    fd_.reset();
    return {};
  }

 private:
  int directory_;
  std::string name_;
  Fd fd_;
};

}  // namespace atl::cli
