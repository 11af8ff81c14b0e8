#include "proxy/endpoint.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace atl::proxy {

std::string Endpoint::text() const {
  return address.is_v4() ? concat(address.text(), ":", port)
                         : concat("[", address.text(), "]:", port);
}

std::optional<Endpoint> Endpoint::parse(std::string_view text, std::uint16_t default_port) {
  if (const auto alone = egress::Address::parse(text)) {
    return Endpoint{*alone, default_port};
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) {
    host = host.substr(1, host.size() - 2);
  }
  const auto address = egress::Address::parse(host);
  const auto port = parse_u64(text.substr(colon + 1));
  if (!address || !port || *port == 0 || *port > UINT16_MAX || brackets != host.contains(':')) {
    return std::nullopt;
  }
  return Endpoint{*address, static_cast<std::uint16_t>(*port)};
}

SocketAddress mapped_socket_address(const Endpoint& endpoint) {
  SocketAddress address;
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(endpoint.port);
  std::memcpy(&v6->sin6_addr, endpoint.address.bytes().data(), sizeof v6->sin6_addr);
  address.size = sizeof *v6;
  return address;
}

SocketAddress socket_address(const Endpoint& endpoint) {
  if (!endpoint.address.is_v4()) {
    return mapped_socket_address(endpoint);
  }
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  v4->sin_family = AF_INET;
  v4->sin_port = htons(endpoint.port);
  v4->sin_addr.s_addr = htonl(endpoint.address.v4_bits());
  address.size = sizeof *v4;
  return address;
}

Endpoint endpoint_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return {egress::Address::v4(ntohl(v4->sin_addr.s_addr)), ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  egress::Address::Bytes bytes{};
  std::memcpy(bytes.data(), &v6->sin6_addr, bytes.size());
  return {egress::Address::v6(bytes), ntohs(v6->sin6_port)};
}

Result<Endpoint> local_endpoint(int socket) {
  SocketAddress address;
  if (::getsockname(socket, address.get(), &address.size) != 0) {
    return fail_errno("asking for a connection's address");
  }
  return endpoint_of(address.storage);
}

Result<Endpoint> peer_endpoint(int socket) {
  SocketAddress address;
  if (::getpeername(socket, address.get(), &address.size) != 0) {
    return fail_errno("asking for a connection's other end");
  }
  return endpoint_of(address.storage);
}

}  // namespace atl::proxy
