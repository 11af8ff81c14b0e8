// Sockets inside the networks of sandboxes, for those who bring something in: services, peers,
// forwarded ports, answers to datagrams. Loop thread only.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/task.h"
#include "control/sandboxes.h"
#include "io/reactor.h"
#include "node/client.h"

namespace atl::control {

class InsidePorts {
 public:
  InsidePorts(io::Reactor& reactor, node::Node& node, Sandboxes& sandboxes)
      : reactor_(reactor), node_(node), sandboxes_(sandboxes) {}

  // A socket connected to a port that the sandbox listens on, on its loopback device or anywhere.
  // It is woken if it may be. kUnavailable with the reason "port_closed" when nobody listens.
  Task<Fd> connect(std::string team_id, std::string id, std::uint16_t port);

  // For datagrams of both families where the kernel has them; neither bound nor connected. The
  // sandbox is not woken.
  Task<Fd> open_datagram_socket(std::string id);

 private:
  Task<Fd> connect_at(std::string id, std::uint16_t port, node::SocketFamily family);

  io::Reactor& reactor_;
  node::Node& node_;
  Sandboxes& sandboxes_;
};

}  // namespace atl::control
