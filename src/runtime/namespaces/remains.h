// The file systems of cells that are gone, and whose disks nobody needs again.
//
// The kernel makes an overlay's disk durable when the overlay goes: the whole file system it is on,
// for each of them, and the last process of a cell does not end before. So who ends a cell for good
// takes hold of its root first, and leaves it here: a thread of low priority lets go of them, many
// right after another, of which only the first has something to write. Thread-safe.
#pragma once

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
  void leave(Fd root);
  // Returns when what was left before is gone.
  void wait_until_gone();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Fd> waiting_;
  bool working_ = false;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

// The root of a process, held. Invalid when it cannot be had: then its end takes as long as it
// does.
Fd hold_root(int pid);

}  // namespace atl::runtime::namespaces
