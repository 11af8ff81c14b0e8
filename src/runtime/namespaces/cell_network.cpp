#include "runtime/namespaces/cell_network.h"

#include <fcntl.h>
#include <linux/in6.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atl::runtime::namespaces {
namespace {

constexpr int kBacklog = 1024;

// The kernel has done everything when the send returns, so the answers are there. The only one
// without a failure is that to the last message.
int read_answers(int fd) {
  alignas(nlmsghdr) char buffer[8192];
  const ssize_t got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0) {
    return errno;
  }
  std::size_t at = 0;
  const auto size = static_cast<std::size_t>(got);
  while (size - at >= sizeof(nlmsghdr) + sizeof(nlmsgerr)) {
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer + at);
    if (header->nlmsg_type != NLMSG_ERROR) {
      return EPROTO;
    }
    const auto* answer = reinterpret_cast<const nlmsgerr*>(NLMSG_DATA(header));
    if (answer->error != 0) {
      return -answer->error;
    }
    at += NLMSG_ALIGN(header->nlmsg_len);
    if (at >= size) {
      return 0;
    }
  }
  return EPROTO;
}

int send_messages(int protocol, const std::string& bytes) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) {
    return errno;
  }
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  int error = 0;
  if (::sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
               sizeof kernel) != static_cast<ssize_t>(bytes.size())) {
    error = errno;
  } else {
    error = read_answers(fd);
  }
  ::close(fd);
  return error;
}

bool set(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// It may speak in the name of every address.
bool make_transparent(int fd, bool ipv6) {
  return ipv6 ? set(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1) : set(fd, IPPROTO_IP, IP_TRANSPARENT, 1);
}

int bind_everywhere(int fd, bool ipv6, std::uint16_t port) {
  if (!ipv6) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// -1 and errno when it fails.
int open_one(bool ipv6, int type, std::uint16_t port) {
  const int fd = ::socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return -1;
  }
  bool usable = (!ipv6 || set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) && make_transparent(fd, ipv6);
  if (port == kBoundaryPort && type == SOCK_DGRAM) {
    usable = usable && set(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, 1) &&
             (!ipv6 || set(fd, IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1));
  }
  if (usable && bind_everywhere(fd, ipv6, port) == 0 &&
      (type != SOCK_STREAM || ::listen(fd, kBacklog) == 0)) {
    return fd;
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

int open_bare_socket(SocketType type, SocketFamily family) {
  const bool ipv6 = family == SocketFamily::kInet6;
  const int kind = type == SocketType::kStream ? SOCK_STREAM : SOCK_DGRAM;
  const int fd = ::socket(ipv6 ? AF_INET6 : AF_INET, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return -1;
  }
  // Of both families, whatever the host's setting.
  if ((ipv6 && !set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) ||
      (type == SocketType::kDatagram && !make_transparent(fd, ipv6))) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

int build_network(const NetworkPlan& plan) {
  int error = send_messages(NETLINK_ROUTE, plan.routing);
  if (error == 0) {
    error = send_messages(NETLINK_NETFILTER, plan.rules);
  }
  return error;
}

int open_network_sockets(bool ipv6, int (&fds)[kNetworkSocketCount]) {
  fds[0] = open_one(ipv6, SOCK_STREAM, kBoundaryPort);
  fds[1] = fds[0] < 0 ? -1 : open_one(ipv6, SOCK_DGRAM, kBoundaryPort);
  fds[2] = fds[1] < 0 ? -1 : open_one(ipv6, SOCK_DGRAM, kDnsPort);
  if (fds[2] >= 0) {
    return 0;
  }
  const int error = errno;
  for (int& fd : fds) {
    if (fd >= 0) {
      ::close(fd);
    }
    fd = -1;
  }
  return error;
}

}  // namespace atl::runtime::namespaces
