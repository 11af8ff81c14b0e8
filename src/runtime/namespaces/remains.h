// The file systems of cells that are gone, and whose disks nobody needs again.
//
// The last process of a cell takes its mounts along, and does not end before the kernel has done
// two things for them: waited until no processor can be looking at a mount (synchronize_rcu, which
// takes the longer the busier the machine is: seen from 0.1 ms to seconds), and made the overlay's
// disk durable, with the whole file system it is on. So who ends a cell for good takes hold of its
// mounts first, and leaves them here: a thread of low priority lets go of them, one after another.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace atl::runtime::namespaces {

class Remains {
 public:
  Remains();
  ~Remains();  // lets go of all
  Remains(const Remains&) = delete;
  Remains& operator=(const Remains&) = delete;

  // Nothing is kept for an invalid descriptor. When too many wait already, the caller lets go
  // itself.
  void leave(Fd mounts);
  // Returns when nothing is left, or after that time: then false.
  bool wait_until_gone(std::chrono::milliseconds at_most);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Fd> waiting_;
  bool working_ = false;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

// All mounts of a process, held. Invalid when they cannot be had: then its end takes as long as it
// does.
Fd hold_mounts(int pid);

}  // namespace atl::runtime::namespaces
