// One association of UdpRelay, from its first datagram to its record.
#pragma once

#include "proxy/udp_relay.h"

namespace atl::proxy {

// True when it was allowed.
Task<bool> serve_udp(SandboxSession& session, UdpRelay::Key key,
                     std::shared_ptr<UdpRelay::Waiting> waiting);

}  // namespace atl::proxy
