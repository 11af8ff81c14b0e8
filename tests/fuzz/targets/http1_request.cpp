// Requests through scanner, grammar, gate and body decoder, as a server reads them.
#include "http/http1_vectors.h"
#include "http/websocket_handshake.h"
#include "http1.h"

namespace atl::fuzz {

void http1_request(std::string_view input) {
  same_for_every_cut(
      input, [](const auto& parts) { return read_connection(http::Role::kRequest, parts); });
  http::Http1Parser parser{http::Role::kRequest, {}};
  parser.begin();
  if (const auto step = parser.feed(input); step && parser.has_head()) {
    http::Request request;
    request.method = parser.head().method;
    request.headers = parser.head().headers;
    if (const auto accept = http::judge_websocket_request(request, parser.head().minor_version)) {
      CHECK(http::make_websocket_answer(request, *accept, "x"));
    }
  }
}

Seeds http1_request_seeds() {
  Seeds seeds{
      "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"};
  for (const auto& vector : http::request_vectors()) {
    if (vector.bytes.size() < 4096) {
      seeds.push_back(concat(vector.bytes, http::kNextRequest));
    }
  }
  return seeds;
}

}  // namespace atl::fuzz
