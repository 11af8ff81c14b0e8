// What the node does inside a cell's network: on a thread that enters the namespace and ends, so
// that nothing of this process is ever left there. Whatever the cell does, none of this waits for
// it: a namespace has no processes that would have to answer.
#pragma once

#include <functional>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// `act` returns 0 or an errno. kNotFound when the process is gone.
Result<> visit_network(int pidfd, const std::function<int()>& act);

// kFailedPrecondition with the reason "port_taken" when something of the cell has a port of the
// boundary: then it talks to itself instead of the world.
Result<NetworkSockets> open_network_in(int pidfd, bool ipv6);
Result<Fd> open_socket_in(int pidfd, SocketType type, SocketFamily family);

}  // namespace atl::runtime::namespaces
