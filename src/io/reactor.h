// Reactor: the real Loop. One epoll instance and a heap of timers, hidden behind a pimpl.
//
// One thread calls run(). FdWatch waits for readiness of one descriptor; the reads and writes
// themselves are plain non-blocking system calls of ours, tried first, so a ready descriptor costs
// no trip through the reactor.
#pragma once

#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/scope.h"
#include "base/task.h"

namespace atl::io {

class Reactor final : public Loop {
 public:
  Reactor();
  ~Reactor() override;
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  Instant now() const override;
  void post(Callback callback) override;
  TimerId start_timer(Instant when, Callback callback) override;
  void cancel_timer(TimerId id) override;

  void run();   // returns after stop()
  void stop();  // any thread

  // Runs the loop until `task` has ended: for main functions and tests.
  template <class T>
  Result<T> run_until_complete(Task<T> task) {
    std::optional<Result<T>> result;
    Scope scope{*this};
    scope.spawn("main", store_result(*this, std::move(task), result));
    if (!result) {  // it may have ended without ever waiting
      run();
    }
    return *std::move(result);
  }

 private:
  friend class FdWatch;
  struct Impl;

  template <class T>
  static Task<> store_result(Reactor& reactor, Task<T> task, std::optional<Result<T>>& result) {
    result.emplace(co_await std::move(task));
    reactor.stop();
    co_return ok();
  }

  std::unique_ptr<Impl> impl_;
};

// Waits for one descriptor that somebody else owns. At most one waiter per direction.
// The descriptor must be non-blocking and stay open until the watch is gone.
class FdWatch {
 public:
  FdWatch(Reactor& reactor, int fd);
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  enum class Direction : std::uint8_t { kReadable, kWritable };

  class Wait final : public Leaf {
   public:
    Wait(FdWatch& watch, Direction direction) : watch_(watch), direction_(direction) {}

   private:
    friend class FdWatch;
    void start(TaskContext& context) override;
    void stop() override;
    FdWatch& watch_;
    Direction direction_;
  };

  Wait readable() { return Wait{*this, Direction::kReadable}; }
  Wait writable() { return Wait{*this, Direction::kWritable}; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::io
