// Asks the sandbox, beside a flow, who opened it. The flow never waits for the answer; its record
// does, for a moment.
#pragma once

#include <memory>

#include "proxy/sandbox_session.h"

namespace atl::proxy {

class OpenerLookup {
 public:
  // Starts to ask. `account` gets the answer.
  OpenerLookup(SandboxSession& session, std::shared_ptr<FlowAccount> account,
               egress::Transport transport, std::uint16_t port);
  // Until it is known, or kOpenerTime has passed. Also when the caller is cancelled.
  Task<> settle();

 private:
  // Shared with the task that asks, which may end later.
  std::shared_ptr<Event> known_;
};

}  // namespace atl::proxy
