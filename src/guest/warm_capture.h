// Taking the image of a stopped process.
//
// Runs in a forked worker that has the identity of the process's user, so the kernel decides what
// it may look at. The process is a copy that an interpreter made of itself with fork(2): it has one
// thread, stands still, and is of no use to anybody afterwards. What cannot be made again somewhere
// else (connections, shared memory, deleted files) is a refusal that says what it is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "guest/warm_image.h"

namespace atl::guest {

struct CaptureSource {
  pid_t pid = -1;
  std::uint32_t channel = 0;       // the number of the descriptor to its client
  std::uint64_t output_inode = 0;  // of the pipes to the agent; 0: none
  std::uint64_t error_inode = 0;
  std::uint64_t max_bytes = 0;  // of memory that exists nowhere else
  bool own_memory = false;      // what is made of it shares none with the image
};

struct Captured {
  WarmImage image;
  Fd memory;  // sealed
};

// The process does not live on.
Result<Captured> capture_process(const CaptureSource& source);

// The parts of it.
Result<std::vector<Descriptor>> capture_descriptors(const CaptureSource& source);
// Fills in mappings, files, the kernel's mappings and the size; answers the memory file.
Result<Fd> capture_memory(const CaptureSource& source, WarmImage& image);

// Why a process cannot be captured.
std::unexpected<Error> cannot_capture(std::string why, std::string reason);

}  // namespace atl::guest
