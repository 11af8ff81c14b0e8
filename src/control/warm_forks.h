// Forks that take idle interpreters along, warm: with their variables, imports and open files.
//
// While nobody executes in them, the interpreters of the parent copy themselves and the disk is
// snapshotted, so both are of one moment. The children are ordinary forks; as soon as they are
// there, each copy is revived in each of them. What cannot be taken along is missing in the
// children, and the answer says why; it never makes the fork fail. Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/contexts.h"
#include "control/interpreter.h"
#include "control/snapshots.h"

namespace atl::control {

class WarmForks {
 public:
  WarmForks(Contexts& contexts, Sandboxes& sandboxes, Snapshots& snapshots)
      : contexts_(contexts), sandboxes_(sandboxes), snapshots_(snapshots) {}

  // kFailedPrecondition: the parent does not run.
  Task<ClaimAnswer> fork(std::string team_id, std::string sandbox_id, ForkRequest request);

 private:
  struct Carried;
  struct Work;

  Task<ClaimAnswer> fork_now(std::string team_id, std::string sandbox_id, ForkRequest request);
  Task<ClaimAnswer> finish(bool start, std::vector<Carried>& all, ClaimAnswer answer);
  Task<std::uint64_t> free_memory(SandboxRef sandbox);
  Task<> copy_all(SandboxRef sandbox, std::vector<Carried>& all);
  Task<> copy_one(SandboxRef sandbox, std::uint64_t free_bytes, Duration wait, Instant deadline,
                  Carried& carried);
  Task<> revive_all(const std::vector<Sandbox>& children, std::vector<Carried>& all);
  Task<> work(Work& work);
  Task<> pause_all(std::vector<Sandbox>& children);
  Task<> pause_one(Sandbox& child);

  Contexts& contexts_;
  Sandboxes& sandboxes_;
  Snapshots& snapshots_;
};

}  // namespace atl::control
