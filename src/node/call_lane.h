// Calls of one kind: at most so many at once, the others wait in the order they came.
//
//   CO_TRY_DO(co_await lane.enter());
//   ...
//   lane.leave();
//
// A place that is left goes straight to the first who waits: nobody else is woken, and nobody who
// comes later can take it. Loop thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "base/task.h"
#include "node/limits.h"

namespace atl::node {

class CallLane {
 public:
  explicit CallLane(std::size_t most, std::size_t most_waiting = kMaxWaitingCalls)
      : most_(most), most_waiting_(most_waiting) {}
  CallLane(const CallLane&) = delete;
  CallLane& operator=(const CallLane&) = delete;
  ~CallLane() { CHECK(inside_ == 0 && waiting_.empty()); }

  Task<> enter() {
    if (inside_ < most_) {
      ++inside_;
      co_return ok();
    }
    if (waiting_.size() >= most_waiting_) {
      co_return fail(Code::kResourceExhausted, "too many requests wait for the node");
    }
    ::atl::Event called;
    waiting_.push_back(&called);
    auto waited = co_await called.wait();
    if (!waited && called.is_set()) {
      leave();  // called and cancelled at the same time
    } else if (!waited) {
      waiting_.erase(std::ranges::find(waiting_, &called));
    }
    co_return waited;
  }
  void leave() {
    if (waiting_.empty()) {
      --inside_;
      return;
    }
    waiting_.front()->set();  // the place is theirs
    waiting_.pop_front();
  }

 private:
  const std::size_t most_;
  const std::size_t most_waiting_;
  std::size_t inside_ = 0;
  std::deque<::atl::Event*> waiting_;
};

}  // namespace atl::node
