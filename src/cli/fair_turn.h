// FairTurn: lets signals and progress be heard while data never makes us wait.
//
// A copy between two ends that are always ready would run on without a turn of the loop, and Ctrl-C
// would wait for its end. Each loop that moves bytes steps one of these.
#pragma once

#include "base/task.h"

namespace atl::cli {

class FairTurn {
 public:
  Task<> step() {
    if (++steps_ % kStepsPerTurn == 0) {
      co_return co_await sleep_for(Duration::zero());
    }
    co_return ok();
  }

 private:
  static constexpr unsigned kStepsPerTurn = 64;
  unsigned steps_ = 0;
};

}  // namespace atl::cli
