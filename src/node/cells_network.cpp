// The networks of cells, for atolld, which alone reads and writes there.
#include "base/strings.h"
#include "node/cells.h"

namespace atl::node {
namespace {

runtime::SocketType runtime_type(SocketType type) {
  return type == SocketType::kStream ? runtime::SocketType::kStream
                                     : runtime::SocketType::kDatagram;
}

runtime::SocketFamily runtime_family(SocketFamily family) {
  return family == SocketFamily::kInet4 ? runtime::SocketFamily::kInet4
                                        : runtime::SocketFamily::kInet6;
}

}  // namespace

// The lock keeps a cell that ends meanwhile from getting sockets that nobody closes.
Result<std::shared_ptr<NetworkSockets>> Cells::open_network(const std::string& id) {
  const IdLocks::Guard guard = locks_.lock(id);
  TRY(Entry entry, require_running(id));
  if (entry.network == nullptr) {
    TRY(auto made, parts_.runtime.open_network({id, entry.stored.pid, entry.stored.start_time}));
    TRY(entry.network,
        ParkedSockets::park({std::move(made.tcp), std::move(made.udp), std::move(made.dns)},
                            entry.stored.uid_base));
    put(entry);
  }
  TRY(NetworkSockets sockets, entry.network->copies());
  return std::make_shared<NetworkSockets>(std::move(sockets));
}

// Without the lock: a pause or a dump of the cell may take long, and this changes nothing.
Result<Fd> Cells::open_socket(const SocketRequest& request) {
  TRY(const Entry entry, require_running(request.id));
  return parts_.runtime.open_socket({request.id, entry.stored.pid, entry.stored.start_time},
                                    runtime_type(request.type), runtime_family(request.family));
}

}  // namespace atl::node
