// The pool's bin. Throwing away is one rename; destroying follows at once where that is cheap, else
// on a thread of its own. What failed is tried again now and then, and what a killed process did
// not get to is what the next one begins with: the bin on disk is the whole state.
#pragma once

#include <chrono>
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
  // Begins to destroy what is in it; says what. Where destroying is cheap, all of it that can be
  // destroyed is gone when this returns. The rest is no failure, only space that comes later.
  std::vector<std::string> empty();
  // Lets the thread finish the volume it is at; the rest stays for the next start.
  void stop();

 private:
  static constexpr std::chrono::seconds kRetryInterval{30};

  void run(const std::stop_token& stopping);
  bool destroy_all(const std::stop_token& stopping);
  Result<> destroy(const std::string& name);
  bool destroy_or_log(const std::string& name);
  void wake();

  Fd directory_;
  Volumes& volumes_;
  std::mutex destroying_;  // two removers of one tree would stumble over each other
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool has_work_ = false;  // under mutex_
  std::jthread thread_;
};

}  // namespace atl::layers
