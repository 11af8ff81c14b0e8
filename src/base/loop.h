// Loop: the thread that tasks run on, seen as an interface.
//
// A Loop runs callbacks one after another on one thread and fires timers. io::Reactor is the real
// one; ManualLoop (for tests) has a clock that only moves when told to. Everything a task touches
// belongs to its loop's thread; `post` is the only call that may come from another thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace atl {

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Loop {
 public:
  using Callback = std::move_only_function<void()>;
  using TimerId = std::uint64_t;

  virtual ~Loop() = default;
  virtual Instant now() const = 0;
  virtual void post(Callback callback) = 0;  // any thread
  virtual TimerId start_timer(Instant when, Callback callback) = 0;
  // After this returns the callback will not run. Unknown ids are ignored.
  virtual void cancel_timer(TimerId id) = 0;
};

// A loop for tests: nothing runs until run_ready() or advance() is called.
class ManualLoop final : public Loop {
 public:
  Instant now() const override { return now_; }
  void post(Callback callback) override { ready_.push_back(std::move(callback)); }
  TimerId start_timer(Instant when, Callback callback) override;
  void cancel_timer(TimerId id) override;

  void run_ready();                 // runs posted callbacks until none is left
  void advance(Duration duration);  // moves the clock, firing timers in order
  std::size_t timer_count() const { return timers_.size(); }

 private:
  Instant now_;
  TimerId next_id_ = 1;
  std::vector<Callback> ready_;
  std::map<std::pair<Instant, TimerId>, Callback> timers_;
};

}  // namespace atl
