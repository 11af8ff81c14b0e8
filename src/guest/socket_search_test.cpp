// Who has a socket.
#include "guest/socket_search.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

namespace atl::guest {
namespace {

constexpr std::string_view kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
    "11 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0200C80A:1F90 01020305:0050 01 00000000:00000000 00:00000000 00000000   501        0 "
    "12 1 0000000000000000 20 4 30 10 -1\n"
    "   2: 0200C80A:1F91 01020305:0050 06 00000000:00000000 00:00000000 00000000     0        0 "
    "0 1 0000000000000000 20 4 30 10 -1\n"
    "garbage\n";

TEST(SocketSearchTest, ConnectionsComeBeforeListeners) {
  const auto found = sockets_with_port(kTable, 8080);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].inode, 12U);
  EXPECT_EQ(found[0].uid, 501U);
  EXPECT_FALSE(found[0].listening);
  EXPECT_EQ(found[1].inode, 11U);
  EXPECT_TRUE(found[1].listening);
  EXPECT_TRUE(sockets_with_port(kTable, 8081).empty()) << "nobody has it any more";
  EXPECT_TRUE(sockets_with_port("", 80).empty());
}

// A socket on a port that the kernel chose.
struct Bound {
  explicit Bound(int type) : fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port = ntohs(address.sin_port);
    }
    if (type == SOCK_STREAM) {
      ::listen(fd.get(), 1);
    }
  }
  Fd fd;
  std::uint16_t port = 0;
};

TEST(SocketSearchTest, TheHolderIsFoundWithTheProcessThatStartedIt) {
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    const Bound bound{type};
    const FindSocketRequest request{.datagrams = type == SOCK_DGRAM, .port = bound.port};
    const SocketHolder holder = find_socket_holder(request, {{::getsid(0), "mine"}});
    EXPECT_EQ(holder.pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(holder.program, "guest_test");
    EXPECT_EQ(holder.process_id, "mine");
    EXPECT_EQ(find_socket_holder(request, {{::getpid(), "by pid"}}).process_id, "by pid");
    EXPECT_EQ(find_socket_holder(request, {}).process_id, "");
    EXPECT_EQ(find_socket_holder({.datagrams = type != SOCK_DGRAM, .port = bound.port}, {}).pid,
              0U);
  }
}

TEST(SocketSearchTest, ProcessesOfOtherUsersAreFoundToo) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Bound bound{SOCK_STREAM};
    if (::setgid(1000) != 0 || ::setuid(1000) != 0) {
      ::_exit(1);
    }
    // A change of identity hides a process from its own user until it execs.
    const std::string number = std::to_string(bound.port);
    ::dup2(bound.fd.get(), 9);
    ::dup2(ready[1], 1);
    ::execl("/bin/sh", "sh", "-c", ("echo " + number + "; exec 1>&-; exec sleep 1000").c_str(),
            nullptr);
    ::_exit(1);
  }
  ::close(ready[1]);
  char text[16] = {};
  ASSERT_GT(::read(ready[0], text, sizeof text - 1), 0);
  const auto port = static_cast<std::uint16_t>(std::strtoul(text, nullptr, 10));
  const SocketHolder holder = find_socket_holder({.port = port}, {{child, "theirs"}});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  EXPECT_EQ(holder.pid, static_cast<std::uint32_t>(child));
  EXPECT_EQ(holder.process_id, "theirs");
}

TEST(SocketSearchTest, TheWireRefusesWhatCannotBe) {
  EXPECT_TRUE(decode_find_socket(encode(FindSocketRequest{.port = 1})));
  EXPECT_FALSE(decode_find_socket(encode(FindSocketRequest{.port = 0})));
  EXPECT_FALSE(decode_find_socket("x"));
  const SocketHolder holder{7, "curl", "ctx-1"};
  const auto again = decode_socket_holder(encode(holder));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->pid, 7U);
  EXPECT_EQ(again->program, "curl");
  EXPECT_EQ(again->process_id, "ctx-1");
  EXPECT_FALSE(decode_socket_holder(encode(SocketHolder{7, "curl", "../x"})));
}

}  // namespace
}  // namespace atl::guest
