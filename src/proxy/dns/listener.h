// Where a sandbox's questions arrive: datagrams to port 53 of any address, and connections to it.
#pragma once

#include "proxy/dns/service.h"
#include "proxy/socket.h"

namespace atl::proxy::dns {

// Until cancelled. Each question is a task of the session.
Task<> serve_datagrams(SandboxSession& session, Fd socket);
// One connection, question after question, until the client ends it or is silent for too long.
Task<> serve_connection(std::shared_ptr<SandboxSession> session, Fd client);

}  // namespace atl::proxy::dns
