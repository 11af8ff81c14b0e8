// A sandbox made of nothing but system calls: what the kernel asks for at the least.
//
// All namespaces, a cgroup, an overlay of the same root filesystem, no capabilities, a seccomp
// filter, and an init that waits for one byte. It answers for nobody and keeps no books, so no
// platform that isolates as much can be faster; how near one comes is what the bench tells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"

namespace atl::bench {

struct FloorPlace {
  std::string rootfs;                // the lower layer
  std::string directory;             // uppers go here; ours alone
  std::vector<std::string> groups;   // cgroup directories of this run, one of each hierarchy
  std::vector<std::string> command;  // what a claim runs
};

class FloorCell {
 public:
  // Returns as soon as the child is cloned, mapped and in its cgroups; it goes on by itself.
  static Result<FloorCell> make(const FloorPlace& place, unsigned number);
  FloorCell(FloorCell&&) = default;
  FloorCell& operator=(FloorCell&&) = default;

  Result<> wait_ready();  // the init waits for its byte
  Result<> start();       // sends the byte
  // Reads what the init says: true when it was the exit status; then the output is read, too.
  Result<bool> finish();
  int socket() const { return socket_.get(); }
  Result<> destroy(const FloorPlace& place);

 private:
  FloorCell() = default;

  unsigned number_ = 0;
  pid_t pid_ = 0;
  Fd pidfd_;
  Fd socket_;
  Fd output_;
};

// Makes the cgroups of a run on whatever the machine has (version 1, 2 or both), and removes them.
Result<std::vector<std::string>> make_floor_groups();
void remove_floor_groups(const std::vector<std::string>& groups);

}  // namespace atl::bench
