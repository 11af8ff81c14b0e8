// A cell's network, prepared once as bytes that each cell's child sends to the kernel.
//
// The namespace has the loopback device and nothing else. `local default` routes make every address
// of the world the cell's own, so whatever a program sends comes back in on that device; there a
// table of rules hands connections and datagrams for the outside to the sockets of the boundary
// (see NetworkSockets), with their destination untouched. There is no interface that leads out, no
// address translation and no connection tracking; whoever loses the rules or the sockets reaches
// nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// The same in every cell: they never meet.
inline constexpr const char* kCellAddress4 = "10.200.0.2";
inline constexpr const char* kCellAddress6 = "fd00:a70:11::2";
inline constexpr const char* kResolverAddress4 = "10.200.0.1";
inline constexpr const char* kResolverAddress6 = "fd00:a70:11::1";
inline constexpr std::uint16_t kBoundaryPort = 1015;  // where everything for the outside ends
inline constexpr std::uint16_t kDnsPort = 53;
inline constexpr std::uint16_t kQuicPort = 443;  // refused, so that clients use TCP at once

struct NetworkPlan {
  std::string routing;  // messages for NETLINK_ROUTE: the device up, addresses, routes
  std::string rules;    // a batch for NETLINK_NETFILTER
  std::string resolver_file;
  bool ipv6 = false;
};

// With IPv6 only if the kernel has it.
NetworkPlan make_network_plan(bool ipv6);

// Builds such a network for a moment and sends a connection through it.
Result<> try_network(const NetworkPlan& plan);

// The plan that works on this host; `egress` says so, or why there is none.
NetworkPlan find_network_plan(Egress& egress);

}  // namespace atl::runtime::namespaces
