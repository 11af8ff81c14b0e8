// One request from a sandbox, judged, sent on, and its answer brought back.
#pragma once

#include "proxy/http/conversation.h"
#include "proxy/http/exchange.h"

namespace atl::proxy::http {

// Answers whatever happens, as long as no answer has begun. Fails when the client's side cannot go
// on: the answer was cut short, or nobody waits for it.
Task<> relay(Conversation& conversation, ClientSide& client);

}  // namespace atl::proxy::http
