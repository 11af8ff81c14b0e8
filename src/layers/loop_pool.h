// A btrfs of our own in a sparse file: <pool>/pool.img, mounted at <pool>/mnt.
//
// The file appears under its name only after it was formatted, so a pool.img is always a file
// system. It is sparse and its free blocks are given back (discard), so it costs the host what is
// in it, whatever its nominal size.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "layers/loop_device.h"

namespace atl::layers {

// How large a new loop file becomes on a file system with this much space. `wanted_bytes` 0: most
// of what is free. It may grow to its size, so it is never more than what is free less a reserve.
Result<std::uint64_t> choose_loop_bytes(std::uint64_t total_bytes, std::uint64_t free_bytes,
                                        std::uint64_t wanted_bytes);

class LoopPool {
 public:
  const std::string& mount_path() const { return mount_path_; }
  // Unmounts and detaches. Fails when something still uses the mount; may be called again.
  Result<> close();

  // True when the pool directory has a pool.img: then it must be used.
  static bool exists(int pool_fd);
  // Formats pool.img. `bytes` 0: most of the free space.
  static Result<> create(int pool_fd, const std::string& pool_path, std::uint64_t bytes);
  static Result<LoopPool> open(int pool_fd, const std::string& pool_path);

 private:
  LoopPool(std::string mount_path, LoopDevice device)
      : mount_path_(std::move(mount_path)), device_(std::move(device)) {}

  std::string mount_path_;
  LoopDevice device_;
  bool mounted_ = true;
};

}  // namespace atl::layers
