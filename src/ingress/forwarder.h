// One request on its way to a service and its answer back. Bodies are streamed both ways, at the
// pace of whoever is slower. An error before the answer has begun is the caller's to tell; after
// that the connection is cut, so that nobody takes half an answer for a whole one.
#pragma once

#include <optional>
#include <string>

#include "http/server.h"
#include "ingress/forwarding.h"
#include "ingress/upstreams.h"

namespace atl::ingress {

struct Forward {
  UpstreamKey upstream;
  std::string method;
  std::string path;  // with its query
  http::Headers fields;
  ResponseView view;
  http::Headers extra;          // of the answer: cross-origin rules
  Duration timeout{};           // until the answer begins; zero: none
  std::uint64_t max_bytes = 0;  // of the request; zero: no limit
};

struct Traffic {
  std::uint64_t bytes_in = 0;   // into the sandbox
  std::uint64_t bytes_out = 0;  // out of it
  int status = 0;               // of the answer; 0: none came
};

Task<> forward_request(http::Exchange& exchange, Upstreams& upstreams, Forward forward,
                       Traffic& traffic);

// Also for requests whose service then does not want a WebSocket.
Task<> forward_websocket(http::Exchange& exchange, Upstreams& upstreams, Forward forward,
                         Traffic& traffic);
bool wants_websocket(const http::Request& request);

// The answer that stands in the connection's parser.
Task<> send_answer(http::Exchange& exchange, http::ClientConnection& connection,
                   const Forward& forward, Traffic& traffic);
// Reads heads until one is a final answer, or 101 when that is wanted.
Task<> read_answer_head(http::ClientConnection& connection, bool bodiless, bool may_switch);

}  // namespace atl::ingress
