#include "node/parked_sockets.h"

#include <sys/socket.h>

#include "io/fd_passing.h"
#include "node/long_lived_fd.h"

namespace atl::node {

Result<std::shared_ptr<const ParkedSockets>> ParkedSockets::park(const NetworkSockets& sockets) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return fail_errno("making a place for a cell's sockets");
  }
  Fd holder{pair[0]};
  const Fd sender{pair[1]};
  TRY_DO(io::send_datagram(sender.get(), "n",
                           {sockets.tcp.get(), sockets.udp.get(), sockets.dns.get()}));
  return std::shared_ptr<const ParkedSockets>{new ParkedSockets{keep_long(std::move(holder))}};
}

Result<NetworkSockets> ParkedSockets::copies() const {
  TRY(io::Datagram kept, io::look_at_datagram(holder_.get(), 1));
  if (kept.fds.size() != kNetworkSocketCount) {
    return fail(Code::kInternal, "the sockets of a cell are not where they were put");
  }
  return NetworkSockets{std::move(kept.fds[0]), std::move(kept.fds[1]), std::move(kept.fds[2])};
}

}  // namespace atl::node
