// One process that is being made from an image, seen from the agent.
//
// The agent traces it and never waits: each of the four stops on the way (the program is executed,
// the plan is mapped, the memory is rebuilt, the plan is unmapped) arrives as a stopped child. No
// instruction of the image runs before the last of them.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "guest/warm_image.h"
#include "guest/warm_steps.h"
#include "guest/warm_stub.h"

namespace atl::guest {

class Revival {
 public:
  static Result<Revival> start(const SpawnRequest& request, WarmImage image, Fd memory);

  // For the table of processes.
  Spawned take_spawned() { return std::move(spawned_); }
  pid_t pid() const { return pid_; }
  // It stopped with this signal. True: it is over, well or not; the status pipe tells.
  bool on_stop(int signal);

 private:
  enum class Stage : std::uint8_t { kExecuting, kMapping, kRestoring, kUnmapping };

  Revival(WarmImage image, Fd plan_file, Stub stub);
  Result<bool> advance(int signal);
  Result<> map_plan();
  Result<> restore();
  Result<> unmap_plan();
  Result<> let_go();

  WarmImage image_;
  Fd plan_file_;
  Spawned spawned_;
  pid_t pid_;
  Fd status_;
  RestoreDescriptors descriptors_;
  RestorePlan plan_;
  Stage stage_ = Stage::kExecuting;
};

}  // namespace atl::guest
