// A directory of this process in memory, removed at the end.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "base/random.h"
#include "base/strings.h"
#include "fuzz.h"

namespace atl::fuzz {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(concat("/dev/shm/atoll-fuzz-", ::getpid(), "-", random_hex(8))) {
    CHECK(std::filesystem::create_directory(path_));
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string make(std::string_view below) const {
    auto directory = concat(path_, "/", below);
    std::filesystem::create_directories(directory);
    return directory;
  }
  void write(const std::string& path, std::string_view content) const {
    CHECK(replace_file(path, content, {}));
  }
  void remove(const std::string& path) const { ::unlink(path.c_str()); }

 private:
  std::string path_;
};

// The bytes as a file without a name.
inline Fd file_of(std::string_view bytes) {
  Fd file{::memfd_create("fuzz", MFD_CLOEXEC)};
  CHECK(file && write_all(file.get(), bytes));
  return file;
}

}  // namespace atl::fuzz
