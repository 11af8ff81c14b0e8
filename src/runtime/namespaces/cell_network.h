// The child's half of a cell's network, and sockets inside one. Plain system calls, nothing is
// allocated: see cell_plan.h. Each returns 0 or an errno.
#pragma once

#include <cstddef>

#include "runtime/namespaces/network_plan.h"

namespace atl::runtime::namespaces {

inline constexpr std::size_t kNetworkSocketCount = 3;

// In a network namespace of its own, with CAP_NET_ADMIN there.
int build_network(const NetworkPlan& plan);

// tcp, udp, dns. When it fails, none is open.
int open_network_sockets(bool ipv6, int (&fds)[kNetworkSocketCount]);

// One that is neither bound nor connected; datagrams may be sent in the name of every address. -1
// and errno when it fails.
int open_bare_socket(SocketType type, SocketFamily family);

}  // namespace atl::runtime::namespaces
