// The pool's one implementation: directories of volumes.
//
//   layers/<id>     immutable trees          layers/.new-<id>-<random>   being filled
//   uppers/<id>     upper/ and work/         uppers/.new-<id>-<random>   being made
//   trash/<id>-<random>                      deleted, not yet destroyed
//
// Every appearance and every disappearance is one rename on one file system, so a killed process
// leaves either the old state or the new one, plus names that `collect` recognises.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "layers/loop_pool.h"
#include "layers/room.h"
#include "layers/volumes.h"

namespace atl::layers {

struct DirectoryPoolParts {
  Fd lock;                // held by the one process that has the pool open
  std::string pool_path;  // what the user named
  std::string root_path;  // where layers/ and uppers/ are
  std::unique_ptr<Volumes> volumes;
  std::optional<LoopPool> loop;
};

Result<std::unique_ptr<Pool>> make_directory_pool(DirectoryPoolParts parts);

}  // namespace atl::layers
