// One process that is being made from an image, seen from the agent.
//
// The agent traces it and never waits: each of the six stops on the way (it begins, the program is
// executed, and about to run, the plan is mapped, the memory is rebuilt, the plan is unmapped)
// arrives as a stopped child. No instruction of the image runs before the last of them. Whoever may
// signal the process may send it what looks like one of these stops, so each is told from a signal
// by what only the kernel can say.
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
  // It stopped; what wait said, without the byte that says so. True: it is over, well or not; the
  // status pipe tells.
  bool on_stop(int stop);

 private:
  enum class Stage : std::uint8_t {
    kBeginning,
    kExecuting,
    kLeaving,
    kMapping,
    kRestoring,
    kUnmapping
  };

  Revival(WarmImage image, Fd plan_file, Stub stub);
  Result<> check_stop(int stop) const;
  Result<bool> advance(int stop);
  Result<> execute();
  Result<> leave_exec();
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
  Stage stage_ = Stage::kBeginning;
};

}  // namespace atl::guest
