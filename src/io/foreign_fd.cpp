#include "io/foreign_fd.h"

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

namespace atl::io {
namespace {

// More than one, so that a file that takes long keeps nobody else's disk.
constexpr int kThreads = 4;

class Closer {
 public:
  Closer() {
    for (int i = 0; i < kThreads; ++i) {
      std::thread thread{[this] { close_all(); }};
      ::pthread_setname_np(thread.native_handle(), "closing");
      thread.detach();
    }
  }

  void take(Fd fd) {
    {
      const std::lock_guard lock{mutex_};
      queue_.push_back(std::move(fd));
      ++state_.waiting;
    }
    wake_.notify_one();
  }

  Closing state() {
    const std::lock_guard lock{mutex_};
    return state_;
  }

 private:
  [[noreturn]] void close_all() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock{mutex_};
    for (;;) {
      wake_.wait(lock, [this] { return !queue_.empty(); });
      Fd fd = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      fd.reset();
      lock.lock();
      --state_.waiting;
      ++state_.closed;
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Fd> queue_;
  Closing state_;
};

// Of the process, because descriptors go astray in every corner of it. It has no end of its own:
// whatever is open when the process ends is closed with it.
Closer& closer() {
  static auto* const only = new Closer;
  return *only;
}

}  // namespace

void close_elsewhere(Fd fd) {
  if (fd) {
    closer().take(std::move(fd));
  }
}

Closing closing_elsewhere() {
  return closer().state();
}

}  // namespace atl::io
