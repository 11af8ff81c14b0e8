#include "runtime/namespaces/lost_connections.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <tuple>

#include "base/fd.h"
#include "base/log.h"
#include "runtime/namespaces/network_visit.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::size_t kMaxConnections = 1U << 17;
constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
constexpr std::uint32_t kConnectedStates =
    ((1U << (TCP_CLOSING + 1)) - 1) & ~((1U << TCP_LISTEN) | (1U << TCP_CLOSE));

using Address = std::array<std::uint32_t, 4>;
struct End {
  Address address{};
  std::uint16_t port = 0;
  auto operator<=>(const End&) const = default;
};

// An IPv4 address has one form, whatever kind of socket it is on.
Address normal(std::uint8_t family, const std::uint32_t (&words)[4]) {
  if (family == AF_INET) {
    return {0, 0, htonl(0xFFFF), words[0]};
  }
  return {words[0], words[1], words[2], words[3]};
}

End near_end(const inet_diag_msg& message) {
  return {normal(message.idiag_family, message.id.idiag_src), message.id.idiag_sport};
}
End far_end(const inet_diag_msg& message) {
  return {normal(message.idiag_family, message.id.idiag_dst), message.id.idiag_dport};
}

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

Question make_question(std::uint16_t type, std::uint16_t flags, std::uint8_t family) {
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = type;
  question.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  question.body.sdiag_family = family;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = kConnectedStates;
  return question;
}

int ask(int fd, const Question& question) {
  return ::send(fd, &question, sizeof question, 0) == sizeof question ? 0 : errno;
}

// 0, an errno, or -1 for: the list goes on.
int read_page(int fd, std::vector<inet_diag_msg>& into) {
  alignas(nlmsghdr) static thread_local char buffer[kBufferBytes];
  const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
  if (got < 0) {
    return errno;
  }
  std::size_t left = static_cast<std::size_t>(got);
  for (auto* header = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(header, left);
       header = NLMSG_NEXT(header, left)) {
    if (header->nlmsg_type == NLMSG_DONE) {
      return 0;
    }
    if (header->nlmsg_type == NLMSG_ERROR) {
      return -reinterpret_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    }
    if (header->nlmsg_len >= NLMSG_LENGTH(sizeof(inet_diag_msg)) && into.size() < kMaxConnections) {
      inet_diag_msg message{};
      std::memcpy(&message, NLMSG_DATA(header), sizeof message);
      into.push_back(message);
    }
  }
  return -1;
}

int list_connections(int fd, std::uint8_t family, std::vector<inet_diag_msg>& into) {
  if (const int error = ask(fd, make_question(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, family));
      error != 0) {
    return error;
  }
  int state = -1;
  while (state < 0) {
    state = read_page(fd, into);
  }
  return state;
}

int abort_connection(int fd, const inet_diag_msg& connection) {
  Question question = make_question(SOCK_DESTROY, NLM_F_ACK, connection.idiag_family);
  question.body.id = connection.id;
  if (const int error = ask(fd, question); error != 0) {
    return error;
  }
  std::vector<inet_diag_msg> none;
  int state = -1;
  while (state < 0) {
    state = read_page(fd, none);
  }
  return state == ENOENT ? 0 : state;  // it has ended by itself
}

int abort_lost(std::size_t& count) {
  const Fd fd{::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
  if (!fd) {
    return errno;
  }
  std::vector<inet_diag_msg> connections;
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    const int error = list_connections(fd.get(), family, connections);
    if (error != 0 && error != ENOENT) {  // a kernel without IPv6
      return error;
    }
  }
  const auto lost = find_lost(connections);
  count = lost.size();
  for (const std::size_t index : lost) {
    if (const int error = abort_connection(fd.get(), connections[index]); error != 0) {
      return error;
    }
  }
  return 0;
}

}  // namespace

std::vector<std::size_t> find_lost(std::span<const inet_diag_msg> connections) {
  std::set<std::pair<End, End>> known;
  for (const inet_diag_msg& connection : connections) {
    known.emplace(near_end(connection), far_end(connection));
  }
  std::vector<std::size_t> lost;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    if (!known.contains({far_end(connections[i]), near_end(connections[i])})) {
      lost.push_back(i);
    }
  }
  return lost;
}

Result<std::size_t> abort_lost_connections(int pidfd) {
  std::size_t count = 0;
  const auto aborted = visit_network(pidfd, [&] { return abort_lost(count); });
  if (!aborted && aborted.error().reason == "EOPNOTSUPP") {
    LOG_WARN("this kernel cannot end connections of a restored sandbox at once; they end when used",
             {"connections", count});
    return count;
  }
  TRY_DO(aborted);
  return count;
}

}  // namespace atl::runtime::namespaces
