// The beginning of a process that is made from an image: everything that is done before its memory
// is rebuilt. It has the identity, the limits, the directory and the open files of the image,
// executes the image's program, so that it is that program for everybody who looks, and stops there
// under the agent's trace.
#pragma once

#include <sys/resource.h>

#include "guest/spawn.h"
#include "guest/warm_image.h"
#include "guest/warm_steps.h"
#include "guest/wire.h"

namespace atl::guest {

struct Stub {
  Spawned spawned;
  Fd status;                       // a second end of its status pipe, to say that it failed
  RestoreDescriptors descriptors;  // the numbers of both files in the stub
};

// `memory` and `plan` are given to it; `plan` is to be written before it is continued.
Result<Stub> start_stub(const SpawnRequest& request, const WarmImage& image, const Fd& memory,
                        const Fd& plan);

}  // namespace atl::guest
