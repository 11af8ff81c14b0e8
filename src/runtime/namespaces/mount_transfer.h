// Handing mounts from the parent to the child of clone3, over their socket.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

// See cell_root.h; the kernel takes 253 at once.
inline constexpr std::size_t kMaxTransferredMounts = 215;

// REQUIRES: 1..kMaxTransferredMounts mounts. A child that is gone is no error here: what it had to
// say is already in the channel.
Result<> send_mounts(int channel, const std::vector<Fd>& mounts);

// Fills exactly `count` descriptors. Returns 0 or an errno, EPIPE when the parent is gone.
// Async-signal-safe.
int receive_mounts(int channel, int* fds, std::size_t count);

}  // namespace atl::runtime::namespaces
