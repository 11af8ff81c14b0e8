#include "proxy/datagram.h"

#include <netinet/in.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <span>

namespace atl::proxy {
namespace {

constexpr std::size_t kControlBytes = 512;

int family_of(int socket) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

template <class T>
T control_value(const cmsghdr* header) {
  T value{};
  std::memcpy(&value, CMSG_DATA(header), sizeof value);
  return value;
}

// An original destination has a port; what a bound socket reports is an address only.
void read_control(const cmsghdr* header, std::optional<Endpoint>& original,
                  std::optional<egress::Address>& address) {
  if (header->cmsg_level == SOL_IP && header->cmsg_type == IP_ORIGDSTADDR) {
    sockaddr_storage storage{};
    const auto value = control_value<sockaddr_in>(header);
    std::memcpy(&storage, &value, sizeof value);
    original = endpoint_of(storage);
  } else if (header->cmsg_level == SOL_IPV6 && header->cmsg_type == IPV6_ORIGDSTADDR) {
    sockaddr_storage storage{};
    const auto value = control_value<sockaddr_in6>(header);
    std::memcpy(&storage, &value, sizeof value);
    original = endpoint_of(storage);
  } else if (header->cmsg_level == SOL_IP && header->cmsg_type == IP_PKTINFO) {
    address = egress::Address::v4(ntohl(control_value<in_pktinfo>(header).ipi_addr.s_addr));
  } else if (header->cmsg_level == SOL_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
    const auto info = control_value<in6_pktinfo>(header);
    egress::Address::Bytes bytes{};
    std::memcpy(bytes.data(), &info.ipi6_addr, bytes.size());
    address = egress::Address::v6(bytes);
  }
}

}  // namespace

Result<> allow_any_source(int socket) {
  const int on = 1;
  if (::setsockopt(socket, SOL_IP, IP_FREEBIND, &on, sizeof on) != 0) {
    return fail_errno("answering from any address");
  }
  return {};
}

Result<> report_destinations(int socket) {
  TRY_DO(allow_any_source(socket));
  const int on = 1;
  const bool v6 = family_of(socket) == AF_INET6;
  bool done = ::setsockopt(socket, SOL_IP, IP_RECVORIGDSTADDR, &on, sizeof on) == 0;
  if (v6) {
    done = ::setsockopt(socket, SOL_IPV6, IPV6_RECVORIGDSTADDR, &on, sizeof on) == 0 &&
           ::setsockopt(socket, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) == 0 && done;
  } else {
    done = ::setsockopt(socket, SOL_IP, IP_PKTINFO, &on, sizeof on) == 0 && done;
  }
  return done ? Result<>{} : fail_errno("asking for the destinations of datagrams");
}

Result<std::optional<Datagram>> receive_datagram(int socket, std::span<char> buffer) {
  SocketAddress source;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[kControlBytes];
  msghdr message{};
  message.msg_name = &source.storage;
  message.msg_namelen = source.size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT);
  if (got < 0) {
    const bool passing = errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED;
    return passing ? Result<std::optional<Datagram>>{std::nullopt}
                   : fail_errno("receiving a datagram");
  }
  std::optional<Endpoint> original;
  std::optional<egress::Address> address;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    read_control(header, original, address);
  }
  Datagram datagram{std::string{buffer.data(), static_cast<std::size_t>(got)},
                    endpoint_of(source.storage), original.value_or(Endpoint{})};
  if (!original && address) {
    TRY(const Endpoint bound, local_endpoint(socket));
    datagram.destination = {*address, bound.port};
  }
  return std::optional{std::move(datagram)};
}

void send_datagram_from(int socket, const Endpoint& from, const Endpoint& to,
                        std::string_view bytes) {
  const bool v6 = family_of(socket) == AF_INET6;
  SocketAddress target = v6 ? mapped_socket_address(to) : socket_address(to);
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
  msghdr message{};
  message.msg_name = &target.storage;
  message.msg_namelen = target.size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = v6 ? CMSG_SPACE(sizeof(in6_pktinfo)) : CMSG_SPACE(sizeof(in_pktinfo));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (v6) {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, from.address.bytes().data(), sizeof info.ipi6_addr);
    header->cmsg_level = SOL_IPV6;
    header->cmsg_type = IPV6_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
  } else {
    in_pktinfo info{};
    info.ipi_spec_dst.s_addr = htonl(from.address.v4_bits());
    header->cmsg_level = SOL_IP;
    header->cmsg_type = IP_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
  }
  ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace atl::proxy
