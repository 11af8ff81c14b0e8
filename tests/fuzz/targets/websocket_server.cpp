// Frames from a client.
#include "websocket.h"

namespace atl::fuzz {

void websocket_server(std::string_view input) {
  check_websocket(http::WebSocketRole::kServer, input);
}

Seeds websocket_server_seeds() {
  return websocket_frames(http::WebSocketRole::kClient);
}

}  // namespace atl::fuzz
