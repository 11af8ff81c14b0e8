// How much of its limit an upper has used.
//
// Simple quotas charge a block to the volume that wrote it, so a copy of a snapshot starts at zero.
// Without more, filling a disk, taking a snapshot and going back to it would give the space again
// and again. So the size of what was copied is remembered on the volume itself and counts as used.
// Only for backends with quota.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "layers/volumes.h"

namespace atl::layers {

Result<UpperUsage> upper_usage(Volumes& volumes, const TreePlace& upper);
// The limit is on all an upper holds, the quota on what it wrote itself. 0: none.
Result<> limit_upper(Volumes& volumes, const TreePlace& upper, std::uint64_t limit_bytes);
// Before a snapshot is taken, so that it is part of it: what a copy will have inherited.
Result<> prepare_inheritance(Volumes& volumes, const TreePlace& upper);
// The new upper is a copy of the snapshot.
Result<> inherit(const TreePlace& snapshot, const TreePlace& upper);

}  // namespace atl::layers
