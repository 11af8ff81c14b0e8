// The sockets of a cell's network, kept behind one descriptor.
//
// They lie as a message that nobody has read yet in a socket whose other end is closed. Looking at
// a message without taking it gives new descriptors of the same sockets, each time. So a cell costs
// the node one descriptor instead of three: their number is what bounds the number of cells.
//
// The kernel counts descriptors under way by the user who sent them, and refuses ordinary processes
// of that user (ETOOMANYREFS) when they are more than one of them may have open. All cells'
// together as root's would take that from every root of the host without capabilities; so each
// cell's are its own user's.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "node/protocol.h"

namespace atl::node {

class ParkedSockets {
 public:
  static Result<std::shared_ptr<const ParkedSockets>> park(const NetworkSockets& sockets,
                                                           std::uint32_t charged_uid);
  Result<NetworkSockets> copies() const;

 private:
  explicit ParkedSockets(Fd holder) : holder_(std::move(holder)) {}
  Fd holder_;
};

}  // namespace atl::node
