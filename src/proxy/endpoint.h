// An address with a port, and its way to and from the kernel's structures.
#pragma once

#include <sys/socket.h>

#include <string>

#include "egress/address.h"

namespace atl::proxy {

struct Endpoint {
  egress::Address address;
  std::uint16_t port = 0;
  std::string text() const;  // "192.0.2.1:80", "[2001:db8::1]:80"
  // "192.0.2.1", "192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]:5353".
  static std::optional<Endpoint> parse(std::string_view text, std::uint16_t default_port);
  auto operator<=>(const Endpoint&) const = default;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// In the family of the address itself.
SocketAddress socket_address(const Endpoint& endpoint);
// For sockets of both families: IPv4 in its mapped form.
SocketAddress mapped_socket_address(const Endpoint& endpoint);
Endpoint endpoint_of(const sockaddr_storage& storage);

// For an accepted connection of a transparent listener: where its client wanted to go.
Result<Endpoint> local_endpoint(int socket);
Result<Endpoint> peer_endpoint(int socket);

}  // namespace atl::proxy
