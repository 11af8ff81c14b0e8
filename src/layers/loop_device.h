// A file as a block device.
//
// Two loop devices over one btrfs file would be two kernels' worth of caches over one disk: it
// would be destroyed. So a device that already has our file behind it is always found and used
// again, also when it is busy in the mount namespace of a sandbox that outlived its node. Devices
// clear themselves when their last user goes (LO_FLAGS_AUTOCLEAR), so a killed process leaves none.
//
// REQUIRES: one process at a time per file (the pool's lock).
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace atl::layers {

class LoopDevice {
 public:
  const std::string& path() const { return path_; }  // "/dev/loop3"
  // Lets go and waits until the kernel has detached the file, which it does when nothing has the
  // device mounted or open any more. Fails when something keeps it longer than kDetachWaitMs.
  Result<> detach();

  // The device that has this file behind it already, if there is one.
  static std::optional<LoopDevice> find(int file_fd);
  static Result<LoopDevice> attach(int file_fd);

 private:
  LoopDevice(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;  // keeps the device from clearing itself until it is mounted
};

}  // namespace atl::layers
