// A WebSocket on its way through: the upgrade was judged as the request it is; afterwards the
// frames of both sides are checked for being frames and relayed as they are.
#pragma once

#include <vector>

#include "proxy/http/exchange.h"

namespace atl::proxy::http {

// REQUIRES: the server has answered `request` with `head`, a 101. Fails, before anything is sent to
// the client, when that is no handshake. A message with one of the `forbidden` placeholders ends
// it.
Task<> relay_websocket(ClientSide& client, ServerSide& server, const RequestHead& request,
                       ResponseHead head, const std::vector<std::string>& forbidden);

}  // namespace atl::proxy::http
