// How a refused connection is told: in its own protocol where that has a way to say so, else by a
// reset, which every program takes for a refusal at once.
#pragma once

#include "egress/boundary.h"
#include "egress/classifier.h"
#include "proxy/socket.h"

namespace atl::proxy {

// The body of a plain-text answer: why, by which rule, and how to find out more.
std::string refusal_text(const egress::FlowRecord& record);
// What goes to a client of this protocol; empty: nothing can be said.
std::string refusal_bytes(const egress::Classified& contents, const egress::FlowRecord& record);

// Tells and ends the connection. `bytes` empty: the client is reset.
Task<> send_refusal(Socket& client, std::string bytes);

}  // namespace atl::proxy
