#include "runtime/namespaces/remains.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/long_lived_fd.h"
#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

// Each is a descriptor, and file systems that stay.
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

void Remains::leave(Fd mounts) {
  const std::lock_guard guard{mutex_};
  if (mounts && waiting_.size() < kMostWaiting) {
    waiting_.push_back(std::move(mounts));
    changed_.notify_all();
  }
}

bool Remains::wait_until_gone(std::chrono::milliseconds at_most) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, at_most, [this] { return waiting_.empty() && !working_; });
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

Fd hold_mounts(int pid) {
  return keep_long(Fd{::open(concat("/proc/", pid, "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC)});
}

}  // namespace atl::runtime::namespaces
