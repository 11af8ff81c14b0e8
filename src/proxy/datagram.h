// Datagrams with the address they were sent to, for sockets that stand in for every address.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/fd.h"
#include "proxy/endpoint.h"

namespace atl::proxy {

inline constexpr std::size_t kMaxDatagramBytes = 65535;

struct Datagram {
  std::string bytes;
  Endpoint source;
  Endpoint destination;  // where the sender wanted it to go
};

// Inside a sandbox every address leads to us, but IPv6 takes only configured ones as a source.
Result<> allow_any_source(int socket);
// The same, and the kernel says with each datagram where it went. Of a bound socket: its address.
// Of a transparent one: the original destination.
Result<> report_destinations(int socket);
// Nothing when there is none now. One without a destination is dropped.
Result<std::optional<Datagram>> receive_datagram(int socket, std::span<char> buffer);
// From the address that the question went to: a socket bound to every address would else choose
// one. What cannot be sent now is lost, as datagrams are.
void send_datagram_from(int socket, const Endpoint& from, const Endpoint& to,
                        std::string_view bytes);

}  // namespace atl::proxy
