// The pipes, the terminal and the channel between the agent and one child, both ends of each.
#pragma once

#include "base/fd.h"
#include "guest/spawn.h"
#include "guest/wire.h"

namespace atl::guest {

// The child's ends; each is moved to its final number after fork.
struct ChildEnds {
  Fd status;
  Fd input;
  Fd output;
  Fd error_output;
  Fd terminal;
  Fd channel;
};

struct Ends {
  Spawned parent;
  ChildEnds child;
};

// As the request says. The agent's ends are non-blocking, all are close-on-exec.
Result<Ends> make_ends(const SpawnRequest& request);

}  // namespace atl::guest
