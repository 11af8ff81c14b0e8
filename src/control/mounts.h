// What Sandboxes asks of whoever keeps volumes. Loop thread only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/task.h"
#include "store/room.h"

namespace atl::control {

using store::Mount;

// One list for each of several sandboxes.
using MountLists = std::vector<std::vector<Mount>>;

// Does `also` while the sandbox that is forked stands still.
using AtMoment = std::function<Task<>(std::function<Task<>()> also)>;

class MountKeeper {
 public:
  virtual ~MountKeeper() = default;
  // Refuses while the disk of one of them is being exchanged.
  virtual Result<> admit(const std::vector<Mount>& mounts) const = 0;
  // The mounts that each of `count` new sandboxes of a claim asks for, as they will be. Does not
  // suspend: the caller takes the volumes before anybody else can.
  virtual Result<std::vector<Mount>> bind(const std::string& team_id, std::vector<Mount> wanted,
                                          std::size_t count) = 0;
  // For `count` children of a sandbox with these mounts: what only one may have is forked for each,
  // as it is at the moment, the rest is shared. `at_moment` is asked once and outlives the task.
  virtual Task<MountLists> fork(std::string team_id, std::vector<Mount> mounts, std::size_t count,
                                const AtMoment& at_moment) = 0;
  // What fork() made belongs to the children now, or is not needed.
  virtual Task<> settle(MountLists forked, bool keep) = 0;
};

}  // namespace atl::control
