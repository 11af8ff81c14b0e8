// The pool's bin. Throwing away is one rename; destroying follows at once where that is cheap, else
// on a thread of its own, and what a killed process did not get to is destroyed by `empty` at the
// next start.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "layers/volumes.h"

namespace atl::layers {

class Trash {
 public:
  // `volumes` must outlive it.
  Trash(Fd directory, Volumes& volumes);
  ~Trash() { stop(); }
  Trash(const Trash&) = delete;
  Trash& operator=(const Trash&) = delete;

  // Idempotent: a name that is not there has been thrown away.
  Result<> throw_away(int parent_fd, const std::string& name);
  // Destroys everything in it now; says how much.
  Result<std::vector<std::string>> empty();
  // Lets the thread finish the volume it is at; the rest stays for the next start.
  void stop();

 private:
  void run(const std::stop_token& stopping);
  Result<> destroy(const std::string& name);

  Fd directory_;
  Volumes& volumes_;
  std::mutex destroying_;  // two removers of one tree would stumble over each other
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool has_work_ = false;  // under mutex_
  std::jthread thread_;
};

}  // namespace atl::layers
