// Connections to one of several addresses, in the manner of happy eyeballs: the next address is
// tried beside the one that has not answered for a while, and the first that answers is taken.
#pragma once

#include "base/fd.h"
#include "io/reactor.h"
#include "proxy/endpoint.h"

namespace atl::proxy {

struct Connected {
  Fd fd;  // non-blocking
  Endpoint endpoint;
};

// REQUIRES: at least one. Fails with what the last attempt said.
Task<Connected> connect_first(io::Reactor& reactor, std::vector<Endpoint> endpoints);

}  // namespace atl::proxy
