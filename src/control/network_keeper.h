// What Sandboxes asks of whoever keeps sandboxes on the network. Loop thread only.
#pragma once

#include <memory>
#include <string_view>

#include "base/task.h"
#include "node/protocol.h"
#include "store/room.h"

namespace atl::control {

class NetworkKeeper {
 public:
  virtual ~NetworkKeeper() = default;
  // The sandbox has a cell: a new one with these sockets, or (null) one that was there before,
  // which may be attached already. When it returns, the first connection from inside is served.
  virtual Task<> attach(store::Sandbox sandbox, std::shared_ptr<node::NetworkSockets> sockets) = 0;
  // It has none any more. Everything it had open is cut. Idempotent.
  virtual void detach(std::string_view sandbox_id) = 0;
};

}  // namespace atl::control
