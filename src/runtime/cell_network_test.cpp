// The network of a cell: everything for the outside ends at the sockets of the boundary, whatever
// the cell does, and nothing else does.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/in6.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/namespaces/lost_connections.h"
#include "runtime/namespaces/network_plan.h"
#include "runtime/test_guest.h"

namespace atl::runtime {
namespace {

constexpr int kPatienceMs = 10'000;

struct Place {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Place place(const std::string& address, std::uint16_t port) {
  Place made;
  if (address.contains(':')) {
    auto* in = reinterpret_cast<sockaddr_in6*>(&made.storage);
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(port);
    ::inet_pton(AF_INET6, address.c_str(), &in->sin6_addr);
    made.size = sizeof *in;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&made.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &in->sin_addr);
    made.size = sizeof *in;
  }
  return made;
}

// "192.0.2.1 80", an IPv4 address that is mapped into IPv6 as itself.
std::string text_of(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    return concat(text, " ", ntohs(in->sin_port));
  }
  const auto* in = reinterpret_cast<const sockaddr_in6*>(&storage);
  ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
  const std::string_view plain{text};
  return concat(plain.starts_with("::ffff:") ? plain.substr(7) : plain, " ", ntohs(in->sin6_port));
}

bool readable(int fd, int patience_ms = kPatienceMs) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, patience_ms) == 1;
}

Place place_in(const std::string& argument) {
  const auto words = split(argument, ' ');
  return place(std::string{words[0]}, static_cast<std::uint16_t>(parse_u64(words[1]).value_or(0)));
}

std::string outcome(int returned) {
  return returned == 0 ? "ok" : std::strerror(errno);
}

// "address port": what the other side says, or why there is none.
PROBE(dial) {
  const Place target = place_in(argument);
  const Fd fd{::socket(target.storage.ss_family, SOCK_STREAM, 0)};
  if (::connect(fd.get(), target.get(), target.size) != 0) {
    return std::strerror(errno);
  }
  char said[64] = {};
  const ssize_t got = ::read(fd.get(), said, sizeof said);
  return got < 0 ? std::strerror(errno) : std::string(said, static_cast<std::size_t>(got));
}

// "address port": sends a datagram, returns the answer and where it came from.
PROBE(shout) {
  const Place target = place_in(argument);
  const Fd fd{::socket(target.storage.ss_family, SOCK_DGRAM, 0)};
  if (::connect(fd.get(), target.get(), target.size) != 0 || ::send(fd.get(), "hello", 5, 0) != 5 ||
      !readable(fd.get())) {
    return std::strerror(errno);
  }
  char said[64] = {};
  const ssize_t got = ::recv(fd.get(), said, sizeof said, 0);
  return got < 0 ? std::strerror(errno) : std::string(said, static_cast<std::size_t>(got));
}

// "address port": sends a datagram and waits for nothing.
PROBE(whisper) {
  const Place target = place_in(argument);
  const Fd fd{::socket(target.storage.ss_family, SOCK_DGRAM, 0)};
  return outcome(::sendto(fd.get(), "hello", 5, 0, target.get(), target.size) == 5 ? 0 : -1);
}

// "stream|datagram address port" as a user who is not root.
PROBE(take) {
  const auto words = split(argument, ' ');
  const Place target = place_in(argument.substr(words[0].size() + 1));
  if (::setuid(1000) != 0) {
    return std::strerror(errno);
  }
  const Fd fd{
      ::socket(target.storage.ss_family, words[0] == "stream" ? SOCK_STREAM : SOCK_DGRAM, 0)};
  return outcome(::bind(fd.get(), target.get(), target.size));
}

// Holds a port until the file "/tmp/let-go" is there.
PROBE(hold) {
  const Place target = place_in(argument);
  const int fd = ::socket(target.storage.ss_family, SOCK_DGRAM, 0);
  if (::bind(fd, target.get(), target.size) != 0) {
    return std::strerror(errno);
  }
  if (::fork() == 0) {
    ::close(STDIN_FILENO);
    for (int i = 3; i < 64; ++i) {
      if (i != fd) {
        ::close(i);
      }
    }
    while (::access("/tmp/let-go", F_OK) != 0) {
      ::usleep(5000);
    }
    ::_exit(0);
  }
  return "ok";
}

PROBE(touch) {
  const Fd fd{::open(argument.c_str(), O_CREAT | O_WRONLY, 0644)};
  return fd ? "ok" : std::strerror(errno);
}

PROBE(resolver) {
  return read_file("/etc/resolv.conf").value_or("none");
}

class CellNetworkTest : public testing::CellFixture {
 protected:
  void SetUp() override {
    CellFixture::SetUp();
    if (!IsSkipped() && !runtime().capabilities().egress.possible) {
      GTEST_SKIP() << runtime().capabilities().egress.reason;
    }
  }
  Result<Cell> create_connected(const std::string& id) {
    CellSpec spec = make_spec(id);
    spec.egress = true;
    return create(spec);
  }
  // Asks while `serve` does something on this side.
  std::string ask_while(const std::string& id, const std::string& line,
                        const std::function<void()>& serve) {
    std::string answer;
    std::jthread asking{[&] { answer = ask(id, line); }};
    serve();
    asking.join();
    return answer;
  }
  void expect_connection(const Cell& cell, const std::string& address, std::uint16_t port) {
    const std::string answer = ask_while(cell.record.id, concat("dial ", address, " ", port), [&] {
      ASSERT_TRUE(readable(cell.network->tcp.get())) << address;
      const Fd accepted{::accept4(cell.network->tcp.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      ASSERT_TRUE(accepted);
      sockaddr_storage own{};
      socklen_t size = sizeof own;
      ASSERT_EQ(::getsockname(accepted.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
      EXPECT_EQ(text_of(own), concat(address, " ", port));
      ASSERT_EQ(::write(accepted.get(), "welcome", 7), 7);
    });
    EXPECT_EQ(answer, "welcome");
  }
  // Where a datagram was to go.
  static std::string destination_of(int fd, sockaddr_storage& from) {
    char bytes[64];
    iovec part{bytes, sizeof bytes};
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(fd, &message, 0) < 0) {
      return std::strerror(errno);
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if ((header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_ORIGDSTADDR) ||
          (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_ORIGDSTADDR)) {
        sockaddr_storage to{};
        std::memcpy(&to, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
        return text_of(to);
      }
    }
    return "nowhere";
  }
};

TEST_F(CellNetworkTest, EveryConnectionToTheOutsideArrivesWithItsDestination) {
  const auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  ASSERT_TRUE(cell->network);
  expect_connection(*cell, "192.0.2.1", 80);
  expect_connection(*cell, "169.254.169.254", 80);
  expect_connection(*cell, "10.0.0.1", 1015);
  expect_connection(*cell, "8.8.8.8", 53);
  if (runtime().capabilities().egress.ipv6) {
    expect_connection(*cell, "2001:db8::7", 443);
    expect_connection(*cell, "fd00:ec2::254", 80);
  }
}

TEST_F(CellNetworkTest, DatagramsArriveAndAnswersComeFromWhereTheyWentTo) {
  const auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  std::vector<std::string> addresses = {"192.0.2.1"};
  if (runtime().capabilities().egress.ipv6) {
    addresses.emplace_back("2001:db8::7");
  }
  for (const std::string& address : addresses) {
    const std::string answer = ask_while("one", concat("shout ", address, " 123"), [&] {
      ASSERT_TRUE(readable(cell->network->udp.get()));
      sockaddr_storage from{};
      EXPECT_EQ(destination_of(cell->network->udp.get(), from), concat(address, " 123"));
      const bool mapped = address.contains('.');
      auto socket = runtime().open_socket(
          cell->record, SocketType::kDatagram,
          from.ss_family == AF_INET ? SocketFamily::kInet4 : SocketFamily::kInet6);
      ASSERT_TRUE(socket) << socket.error().message;
      const Place own =
          place(mapped && from.ss_family == AF_INET6 ? concat("::ffff:", address) : address, 123);
      ASSERT_EQ(::bind(socket->get(), own.get(), own.size), 0) << std::strerror(errno);
      ASSERT_EQ(::sendto(socket->get(), "answer", 6, 0, reinterpret_cast<const sockaddr*>(&from),
                         from.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)),
                6);
    });
    EXPECT_EQ(answer, "answer") << address;
  }
}

TEST_F(CellNetworkTest, QuestionsForNamesArriveAtTheirOwnSocketAndQuicIsRefused) {
  const auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  ASSERT_EQ(ask("one", "whisper 9.9.9.9 53"), "ok");
  ASSERT_TRUE(readable(cell->network->dns.get()));
  char bytes[16];
  EXPECT_EQ(::recv(cell->network->dns.get(), bytes, sizeof bytes, 0), 5);
  EXPECT_EQ(ask("one", "shout 192.0.2.1 443"), "Connection refused");
  EXPECT_FALSE(readable(cell->network->udp.get(), 0));
}

TEST_F(CellNetworkTest, WhatIsForTheCellItselfStaysInside) {
  const auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  for (const char* own : {"127.0.0.1", "127.0.1.1", namespaces::kCellAddress4}) {
    EXPECT_EQ(ask("one", concat("dial ", own, " 4567")), "Connection refused") << own;
  }
  EXPECT_FALSE(readable(cell->network->tcp.get(), 0));
}

TEST_F(CellNetworkTest, NobodyInsideCanTakeThePortsOfTheBoundary) {
  const auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  for (const char* ours :
       {"stream 0.0.0.0 1015", "stream 127.0.0.1 1015", "stream :: 1015", "datagram 0.0.0.0 1015",
        "datagram 192.0.2.1 1015", "datagram 127.0.0.1 53", "datagram :: 53"}) {
    EXPECT_EQ(ask("one", concat("take ", ours)), "Address already in use") << ours;
  }
  EXPECT_EQ(ask("one", "take stream 0.0.0.0 80"), "ok") << "low ports are everybody's";
}

TEST_F(CellNetworkTest, TheResolverIsOursInAFreshCell) {
  ASSERT_TRUE(create_connected("one"));
  EXPECT_EQ(ask("one", "resolver"), "nameserver 10.200.0.1\n");
}

TEST_F(CellNetworkTest, WithoutAWayOutNothingIsReached) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_FALSE(cell->network);
  EXPECT_EQ(ask("one", "dial 192.0.2.1 80"), "Network is unreachable");
}

TEST_F(CellNetworkTest, SocketsAreMadeAnewForACellThatIsFrozen) {
  auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  cell->network.reset();
  if (runtime().capabilities().freeze) {
    ASSERT_TRUE(runtime().freeze("one"));
  }
  auto again = runtime().open_network(cell->record);
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(runtime().open_socket(cell->record, SocketType::kStream, SocketFamily::kInet4));
  if (runtime().capabilities().freeze) {
    ASSERT_TRUE(runtime().thaw("one"));
  }
  cell->network = *std::move(again);
  expect_connection(*cell, "192.0.2.1", 80);
}

TEST_F(CellNetworkTest, APortThatTheCellTookMeanwhileIsSaidAndCostsOnlyTheCell) {
  auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  cell->network.reset();
  ASSERT_EQ(ask("one", "hold 127.0.0.1 53"), "ok");
  const auto refused = runtime().open_network(cell->record);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "port_taken");
  ASSERT_EQ(ask("one", "touch /tmp/let-go"), "ok");
  Result<NetworkSockets> again = fail(Code::kUnavailable, "");
  for (int round = 0; round < 200 && !again; ++round) {
    ::usleep(10'000);  // a process inside ends
    again = runtime().open_network(cell->record);
  }
  EXPECT_TRUE(again);
}

TEST_F(CellNetworkTest, ACellThatEndedHasNoSockets) {
  const auto cell = create_connected("one");
  ASSERT_TRUE(cell) << cell.error().message;
  destroy(cell->record);
  const auto network = runtime().open_network(cell->record);
  ASSERT_FALSE(network);
  EXPECT_EQ(network.error().code, Code::kNotFound) << network.error().message;
  EXPECT_FALSE(runtime().open_socket(cell->record, SocketType::kStream, SocketFamily::kInet4));
}

inet_diag_msg connection(const char* from, std::uint16_t from_port, const char* to,
                         std::uint16_t to_port) {
  inet_diag_msg made{};
  made.idiag_family = std::string_view{from}.contains(':') ? AF_INET6 : AF_INET;
  ::inet_pton(made.idiag_family, from, made.id.idiag_src);
  ::inet_pton(made.idiag_family, to, made.id.idiag_dst);
  made.id.idiag_sport = htons(from_port);
  made.id.idiag_dport = htons(to_port);
  return made;
}

TEST(LostConnectionsTest, ThoseWithoutTheirOtherEndAreLost) {
  const std::vector<inet_diag_msg> connections = {
      connection("127.0.0.1", 80, "127.0.0.1", 4000),
      connection("10.200.0.2", 5000, "192.0.2.1", 443),              // to the world
      connection("::ffff:127.0.0.1", 4000, "::ffff:127.0.0.1", 80),  // of the first
      connection("127.0.0.1", 80, "127.0.0.1", 4001),                // from a service outside
      connection("::1", 7, "::1", 8),
      connection("::1", 8, "::1", 7),
  };
  EXPECT_EQ(namespaces::find_lost(connections), (std::vector<std::size_t>{1, 3}));
}

TEST(NetworkPlanTest, WithoutIpv6NothingSpeaksOfIt) {
  const auto both = namespaces::make_network_plan(true);
  const auto one = namespaces::make_network_plan(false);
  EXPECT_LT(one.routing.size(), both.routing.size());
  EXPECT_LT(one.rules.size(), both.rules.size());
  if (::geteuid() == 0) {
    const auto tried = namespaces::try_network(one);
    EXPECT_TRUE(tried) << tried.error().message;
  }
}

}  // namespace
}  // namespace atl::runtime
