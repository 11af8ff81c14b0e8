// One connection of a sandbox, from its acceptance to its record.
//
// In this order, and each step fails closed: the class of the address; the first bytes, when a rule
// looks at contents; the policy; somebody's approval, when a rule asks; then the connection is
// relayed, or carried by the handler of its protocol.
//
// A client that says nothing may speak a protocol in which the server begins. Its connection is
// judged by what is known, dialled, and whoever speaks first decides how it goes on: when it is the
// client, everything is judged anew; when it is the server, the client's first bytes are held back
// until they were looked at. So silence costs time but opens nothing.
#pragma once

#include <memory>

#include "base/task.h"
#include "proxy/sandbox_session.h"

namespace atl::proxy {

// `source` is the client's end, `original` where it wanted to go.
Task<> serve_tcp(std::shared_ptr<SandboxSession> session, Fd client, Endpoint source,
                 Endpoint original);

}  // namespace atl::proxy
