// Whether this kernel can do what a cell's network needs, tried out.
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/strings.h"
#include "runtime/namespaces/cell_network.h"
#include "runtime/namespaces/cell_visit.h"
#include "runtime/namespaces/network_plan.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::chrono::seconds kTrialTime{10};
constexpr std::uint32_t kSomewhere = 0xC0000201;  // 192.0.2.1, of documentation
constexpr std::uint16_t kSomePort = 80;

// A connection to somewhere arrives at the listener, which sees where it was to go.
int send_connection(int listener, bool ipv6) {
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kSomePort);
  address.sin_addr.s_addr = htonl(kSomewhere);
  if (client < 0 ||
      (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
       errno != EINPROGRESS)) {
    return errno;
  }
  pollfd waiting{listener, POLLIN, 0};
  if (::poll(&waiting, 1, 1000) != 1) {
    return ETIMEDOUT;
  }
  const int accepted = ::accept(listener, nullptr, nullptr);
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (accepted < 0 || ::getsockname(accepted, reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return errno;
  }
  const std::uint16_t port = ipv6 ? reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port
                                  : reinterpret_cast<const sockaddr_in*>(&name)->sin_port;
  return port == htons(kSomePort) ? 0 : EADDRNOTAVAIL;
}

int run_trial(const NetworkPlan& plan) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return errno;
  }
  int fds[kNetworkSocketCount] = {-1, -1, -1};
  int error = build_network(plan);
  if (error == 0) {
    error = open_network_sockets(plan.ipv6, fds);
  }
  return error == 0 ? send_connection(fds[0], plan.ipv6) : error;
}

}  // namespace

Result<> try_network(const NetworkPlan& plan) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(run_trial(plan));
  }
  if (child < 0) {
    return fail_errno("trying a network");
  }
  const int error = wait_for_visitor(child, kTrialTime);
  return error == 0 ? Result<>{} : fail(errno_error("transparent proxying", error));
}

NetworkPlan find_network_plan(Egress& egress) {
  egress = {};
  for (const bool ipv6 : {true, false}) {
    NetworkPlan plan = make_network_plan(ipv6);
    const auto tried = try_network(plan);
    if (tried) {
      egress = {.possible = true, .ipv6 = ipv6, .reason = ""};
      return plan;
    }
    egress.reason =
        concat("this kernel has no transparent proxying in nftables (", tried.error().message,
               "): it needs CONFIG_NF_TABLES, ", "CONFIG_NF_TABLES_INET and CONFIG_NFT_TPROXY");
  }
  return {};
}

}  // namespace atl::runtime::namespaces
