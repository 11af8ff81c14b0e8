#include "node/parked_sockets.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace atl::node {
namespace {

constexpr std::uint32_t kFirstUid = 1'500'000'000;  // of nobody
constexpr rlim_t kMostOpen = 64;

Fd make_socket() {
  return Fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
}

NetworkSockets make_network() {
  return {make_socket(), make_socket(), make_socket()};
}

ino_t inode(const Fd& fd) {
  struct stat status{};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

TEST(ParkedSocketsTest, GivesTheSameSocketsEachTime) {
  const NetworkSockets network = make_network();
  const auto parked = ParkedSockets::park(network, kFirstUid);
  ASSERT_TRUE(parked) << parked.error().message;
  for (int round = 0; round < 2; ++round) {
    const auto copies = (*parked)->copies();
    ASSERT_TRUE(copies) << copies.error().message;
    EXPECT_EQ(inode(copies->tcp), inode(network.tcp));
    EXPECT_EQ(inode(copies->udp), inode(network.udp));
    EXPECT_EQ(inode(copies->dns), inode(network.dns));
  }
}

// As a root that has no rights beyond those of every user: it is refused when too many descriptors
// of its own are under way.
int park_without_rights(std::uint32_t uid_step) {
  const rlimit limit{kMostOpen, kMostOpen};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  data[0].effective = data[0].permitted = 1U << CAP_SETUID;
  const NetworkSockets network = make_network();
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || ::syscall(SYS_capset, &header, data) != 0) {
    return 2;
  }
  std::vector<std::shared_ptr<const ParkedSockets>> kept;
  for (std::uint32_t i = 0; i < kMostOpen / 2; ++i) {
    auto parked = ParkedSockets::park(network, kFirstUid + i * uid_step);
    if (!parked) {
      return 1;
    }
    kept.push_back(*std::move(parked));
  }
  return ::getuid() == 0 ? 0 : 3;
}

int in_child(std::uint32_t uid_step) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(park_without_rights(uid_step));
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ParkedSocketsTest, EachCellIsChargedForItsOwn) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  EXPECT_EQ(in_child(1), 0) << "of many users, each has few under way";
  EXPECT_EQ(in_child(0), 1) << "of one user they are too many: that is what is counted";
}

}  // namespace
}  // namespace atl::node
