#include "node/create_turns.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "node/limits.h"

namespace atl::node {

CreateTurns::CreateTurns(std::size_t at_once)
    : at_once_(std::max<std::size_t>(at_once, 2)), background_at_once_(at_once_ / 2) {}

void CreateTurns::begin(bool in_background) {
  Waiter waiter;
  std::unique_lock lock{mutex_};
  (in_background ? background_ : foreground_).push_back(&waiter);
  call_next();
  waiter.called.wait(lock, [&] { return waiter.has_turn; });
}

std::size_t CreateTurns::waiting() const {
  const std::lock_guard guard{mutex_};
  return foreground_.size() + background_.size();
}

void CreateTurns::end(bool in_background) {
  const std::lock_guard guard{mutex_};
  --running_;
  running_in_background_ -= in_background ? 1 : 0;
  call_next();
}

// REQUIRES: mutex_.
void CreateTurns::call_next() {
  while (running_ < at_once_) {
    const bool background_may =
        !background_.empty() && running_in_background_ < background_at_once_;
    const bool passed_enough = background_may && passed_ >= kMostPassing;
    if (!foreground_.empty() && !passed_enough) {
      passed_ += background_.empty() ? 0 : 1;
      call(foreground_);
    } else if (background_may) {
      passed_ = 0;
      ++running_in_background_;
      call(background_);
    } else {
      return;
    }
  }
}

// REQUIRES: mutex_. Under it, because whoever is called may be gone right after.
void CreateTurns::call(std::deque<Waiter*>& queue) {
  Waiter* const next = queue.front();
  queue.pop_front();
  ++running_;
  next->has_turn = true;
  next->called.notify_one();
}

std::size_t creates_at_once() {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp(cores * kCreatesPerCore, kMinCreatesAtOnce, kMaxCreatesAtOnce);
}

}  // namespace atl::node
