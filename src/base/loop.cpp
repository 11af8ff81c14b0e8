#include "base/loop.h"

#include <utility>

namespace atl {

Loop::TimerId ManualLoop::start_timer(Instant when, Callback callback) {
  const TimerId id = next_id_++;
  timers_.emplace(std::pair{when, id}, std::move(callback));
  return id;
}

void ManualLoop::cancel_timer(TimerId id) {
  for (auto it = timers_.begin(); it != timers_.end(); ++it) {
    if (it->first.second == id) {
      timers_.erase(it);
      return;
    }
  }
}

void ManualLoop::run_ready() {
  while (!ready_.empty()) {
    auto batch = std::exchange(ready_, {});
    for (auto& callback : batch) {
      callback();
    }
  }
}

void ManualLoop::advance(Duration duration) {
  const Instant end = now_ + duration;
  run_ready();
  while (!timers_.empty() && timers_.begin()->first.first <= end) {
    auto node = timers_.extract(timers_.begin());
    now_ = std::max(now_, node.key().first);
    node.mapped()();
    run_ready();
  }
  now_ = end;
}

}  // namespace atl
