#include "runtime/namespaces/network_visit.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>

#include "base/strings.h"
#include "runtime/namespaces/cell_network.h"

namespace atl::runtime::namespaces {
namespace {

struct NetworkVisit {
  int pidfd = -1;
  const std::function<int()>& act;
  int error = 0;
};

void* run_visit(void* argument) {
  auto& visit = *static_cast<NetworkVisit*>(argument);
  visit.error = ::setns(visit.pidfd, CLONE_NEWNET) != 0 ? errno : visit.act();
  return nullptr;
}

}  // namespace

Result<> visit_network(int pidfd, const std::function<int()>& act) {
  NetworkVisit visit{pidfd, act};
  pthread_t thread{};
  if (const int error = ::pthread_create(&thread, nullptr, run_visit, &visit); error != 0) {
    return fail(errno_error("starting a thread for a cell's network", error));
  }
  CHECK(::pthread_join(thread, nullptr) == 0);
  if (visit.error == ESRCH) {
    return fail(Code::kNotFound, "the cell has ended", "not_running");
  }
  return visit.error == 0 ? Result<>{} : fail(errno_error("in a cell's network", visit.error));
}

Result<NetworkSockets> open_network_in(int pidfd, bool ipv6) {
  int fds[kNetworkSocketCount] = {-1, -1, -1};
  const auto opened = visit_network(pidfd, [&] { return open_network_sockets(ipv6, fds); });
  if (!opened && opened.error().reason == "EADDRINUSE") {
    return fail(Code::kFailedPrecondition,
                concat("something in the sandbox listens on port ", kBoundaryPort, " or ", kDnsPort,
                       ", which its network needs; it reaches nothing until that ends"),
                "port_taken");
  }
  TRY_DO(opened);
  return NetworkSockets{Fd{fds[0]}, Fd{fds[1]}, Fd{fds[2]}};
}

Result<Fd> open_socket_in(int pidfd, SocketType type, SocketFamily family) {
  Fd socket;
  const auto opened = visit_network(pidfd, [&] {
    socket = Fd{open_bare_socket(type, family)};
    return socket ? 0 : errno;
  });
  TRY_DO(opened);
  return socket;
}

}  // namespace atl::runtime::namespaces
