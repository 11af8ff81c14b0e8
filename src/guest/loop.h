// The event loop: epoll, and watches that may die while their events are being delivered.
//
// epoll events carry a token that is never used twice, not a pointer, so an event that was already
// fetched for a watch that is gone finds nothing. Watches are level-triggered. Changing a watch
// cannot fail after it was started: pausing keeps the registration (as a disarmed one-shot)
// instead of removing it, so there is no later ADD that could run out of memory.
//
// Handlers must not destroy their own watch; owners mark themselves dead and are swept after the
// batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/fd.h"

namespace atl::guest {

class Watch;

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> create();
  // Waits for events and delivers one batch.
  Result<> run_once();

 private:
  friend class Watch;
  explicit Loop(Fd epoll) : epoll_(std::move(epoll)) {}

  Fd epoll_;
  std::map<std::uint64_t, Watch*> watches_;
  std::uint64_t next_token_ = 1;
};

class Watch {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  explicit Watch(Loop& loop) : loop_(loop) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // REQUIRES: not started; `fd` stays open until stop().
  Result<> start(int fd, std::uint32_t events, Handler handler);
  // With `events` 0 only hang-ups and errors are reported.
  void want(std::uint32_t events);
  // Reports nothing at all until the next want().
  void pause();
  // The same without telling the kernel, for a watch that is stopped before the next batch.
  void mute() { paused_ = true; }
  void stop();
  bool started() const { return fd_ >= 0; }

 private:
  friend class Loop;
  void modify(std::uint32_t events);

  Loop& loop_;
  int fd_ = -1;
  std::uint64_t token_ = 0;
  std::uint32_t events_ = 0;
  bool paused_ = false;
  Handler handler_;
};

}  // namespace atl::guest
