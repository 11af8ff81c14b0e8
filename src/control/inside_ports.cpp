#include "control/inside_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

Task<> wait_for_connection(io::Reactor& reactor, int fd) {
  io::FdWatch watch{reactor, fd};
  CO_TRY_DO(co_await watch.writable());
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    co_return fail_errno("asking how a connection ended");
  }
  co_return error == 0 ? ok() : fail(errno_error("connecting", error));
}

int begin_connect(int fd, std::uint16_t port, node::SocketFamily family) {
  if (family == node::SocketFamily::kInet4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = in6addr_loopback;
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

}  // namespace

Task<Fd> InsidePorts::connect_at(std::string id, std::uint16_t port, node::SocketFamily family) {
  CO_TRY(Fd fd,
         co_await with_deadline(kNodeTimeout, node_.open_socket({.id = id, .family = family})));
  if (begin_connect(fd.get(), port, family) != 0) {
    if (errno != EINPROGRESS) {
      co_return fail_errno("connecting");
    }
    CO_TRY_DO(
        co_await with_deadline(kInsideConnectTimeout, wait_for_connection(reactor_, fd.get())));
  }
  co_return std::move(fd);
}

Task<Fd> InsidePorts::connect(std::string team_id, std::string id, std::uint16_t port) {
  CO_TRY_DO(co_await sandboxes_.running(std::move(team_id), id));
  auto connected = co_await connect_at(id, port, node::SocketFamily::kInet4);
  if (!connected && connected.error().reason == "ECONNREFUSED") {
    // Servers of some languages listen on ::1 alone.
    if (auto other = co_await connect_at(id, port, node::SocketFamily::kInet6); other) {
      co_return other;
    }
    co_return fail(Code::kUnavailable, concat("nobody listens on port ", port, " of sandbox ", id),
                   "port_closed");
  }
  co_return connected;
}

Task<Fd> InsidePorts::open_datagram_socket(std::string id) {
  const auto family =
      sandboxes_.has_egress_ipv6() ? node::SocketFamily::kInet6 : node::SocketFamily::kInet4;
  return with_deadline(kNodeTimeout, node_.open_socket({.id = std::move(id),
                                                        .type = node::SocketType::kDatagram,
                                                        .family = family}));
}

}  // namespace atl::control
