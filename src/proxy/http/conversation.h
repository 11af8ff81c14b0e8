// One connection of a sandbox, and what all its requests share.
#pragma once

#include <memory>

#include "proxy/connection.h"
#include "proxy/http/memory.h"
#include "proxy/http/upstream_pool.h"

namespace atl::proxy::http {

struct Conversation {
  Surroundings& surroundings;
  Memory& memory;
  const egress::Flow flow;  // as it was decided
  const std::shared_ptr<Session> session;
  const std::shared_ptr<FlowAccount> account;
  const bool secure;  // TLS was opened
  const bool http2;   // the client speaks it
  UpstreamPool upstreams;
};

}  // namespace atl::proxy::http
