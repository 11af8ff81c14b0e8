// What the sessions and connections of one proxy share. Lives in the proxy, outlives them.
#pragma once

#include <span>

#include "proxy/allowance.h"
#include "proxy/dialer.h"
#include "proxy/dns/resolver.h"
#include "proxy/host_guard.h"
#include "proxy/instruments.h"
#include "proxy/judge.h"
#include "proxy/pipe_pool.h"
#include "proxy/proxy.h"

namespace atl::proxy {

struct Machinery {
  const ProxyOptions& options;
  Surroundings& surroundings;
  HostGuard& guard;
  dns::Resolver& resolver;
  Dialer& dialer;
  PipePool& pipes;
  std::span<char> copy_buffer;
  Teams& teams;
  Instruments& instruments;
};

// May be empty: there is none.
const ConnectionHandler& handler_of(const Handlers& handlers, Handling handling);

}  // namespace atl::proxy
