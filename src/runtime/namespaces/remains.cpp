#include "runtime/namespaces/remains.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

// Each is a descriptor, and a file system that stays.
constexpr std::size_t kMostWaiting = 512;
constexpr int kLowPriority = 10;

}  // namespace

Remains::Remains() : thread_([this] { run(); }) {}

Remains::~Remains() {
  {
    const std::lock_guard guard{mutex_};
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Remains::leave(Fd root) {
  const std::lock_guard guard{mutex_};
  if (root && waiting_.size() < kMostWaiting) {
    waiting_.push_back(std::move(root));
    changed_.notify_all();
  }
}

void Remains::wait_until_gone() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return waiting_.empty() && !working_; });
}

void Remains::run() {
  ::setpriority(PRIO_PROCESS, 0, kLowPriority);  // of this thread
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return !waiting_.empty() || ending_; });
    if (waiting_.empty()) {
      return;
    }
    std::vector<Fd> all;
    all.swap(waiting_);
    working_ = true;
    lock.unlock();
    all.clear();
    lock.lock();
    working_ = false;
    changed_.notify_all();
  }
}

Fd hold_root(int pid) {
  return Fd{::open(concat("/proc/", pid, "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
}

}  // namespace atl::runtime::namespaces
