// The child's last word before it becomes the guest or criu, with the sockets of its network.
#pragma once

#include <optional>

#include "base/error.h"
#include "runtime/namespaces/cell_network.h"
#include "runtime/namespaces/cell_step.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// The child's half; a descriptor of -1 stands for no network. Returns 0 or an errno.
int send_ready(int channel, const int (&fds)[kNetworkSocketCount]);

struct CellReport {
  StepReport step;
  std::optional<NetworkSockets> network;
};
// The parent's half: what is there to be read, nothing when the channel has closed.
Result<std::optional<CellReport>> receive_report(int channel);

}  // namespace atl::runtime::namespaces
