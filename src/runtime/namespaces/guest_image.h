// The guest executable: private copies in memory, and the mount that carries one into a cell.
//
// A cell sees its copy as /dev/init, a read-only mount of that one file, owned by an id that no
// cell has: what root inside reaches through /proc/1/exe can be neither written nor replaced, and
// neither the file nor the mount names anything of the host. A file and not sealed memory, because
// a dumped guest is restored from the path it ran from. All cells share the pages of a copy.
// Besides the program of today there are those that dumped guests of earlier versions ran.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

inline constexpr std::size_t kMaxGuestBytes = 256U << 20;
inline constexpr const char* kGuestPath = "/dev/init";  // inside

class GuestImages {
 public:
  // Mounts a file system in memory at `directory`, in place of one that is there already.
  static Result<std::unique_ptr<GuestImages>> open(const std::string& directory,
                                                   const std::string& guest_binary);
  GuestImages(const GuestImages&) = delete;
  GuestImages& operator=(const GuestImages&) = delete;

  // A detached mount of the program of today, or of the one in the file.
  Result<Fd> mount() { return mount_copy(current_); }
  Result<Fd> mount_from(const std::string& file);
  Result<> close();

 private:
  explicit GuestImages(std::string directory) : directory_(std::move(directory)) {}
  Result<std::string> keep(const std::string& file);
  static Result<Fd> mount_copy(const std::string& copy);

  std::string directory_;
  std::mutex mutex_;  // one copy at a time
  std::string current_;
};

// A detached, read-only mount whose programs can be started.
Result<Fd> make_program_mount(const std::string& path);

// A copy that only root can read.
Result<> copy_program(const std::string& source, const std::string& target);

}  // namespace atl::runtime::namespaces
