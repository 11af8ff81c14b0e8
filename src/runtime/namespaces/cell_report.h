// The child's words to the node: that it has descriptors of its own, and its last before it becomes
// the guest or criu, with the sockets of its network.
#pragma once

#include <optional>

#include "base/error.h"
#include "runtime/namespaces/cell_network.h"
#include "runtime/namespaces/cell_step.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// The child's first word, with the socket that the guest will listen on. Returns 0 or an errno.
int send_own_descriptors(int channel, int listener);
// The parent's half: the socket. Fails when the child did, or when it has ended (`pidfd`).
Result<Fd> wait_for_own_descriptors(int channel, int pidfd, int timeout_ms);

// The child's half; a descriptor of -1 stands for no network. Returns 0 or an errno.
int send_ready(int channel, const int (&fds)[kNetworkSocketCount]);

struct CellReport {
  StepReport step;
  std::optional<NetworkSockets> network;
};
// The parent's half: what is there to be read, nothing when the channel has closed.
Result<std::optional<CellReport>> receive_report(int channel);

}  // namespace atl::runtime::namespaces
