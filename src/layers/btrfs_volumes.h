// Volumes as btrfs subvolumes: made and destroyed in constant time, each with its own quota group.
//
// At its limit a subvolume answers EDQUOT ("Disk quota exceeded"); btrfs offers no way to have
// ENOSPC there, which it keeps for a full pool. Metadata counts too. Deleting always works, also at
// the limit, and what it frees can be used at once.
#pragma once

#include <memory>

#include "layers/volumes.h"

namespace atl::layers {

struct BtrfsVolumesOptions {
  // Turn quotas on. Only for a file system of our own: simple quotas set a feature flag that keeps
  // older kernels from mounting it. Elsewhere quotas are used when they are on already.
  bool may_enable_quota = false;
};

// Whether limits can be set on the btrfs of this directory; false also when it is no btrfs.
bool btrfs_has_quota(int root_fd);

// `root_fd` is any directory on the file system; it is duplicated.
Result<std::unique_ptr<Volumes>> open_btrfs_volumes(int root_fd, BtrfsVolumesOptions options);

}  // namespace atl::layers
