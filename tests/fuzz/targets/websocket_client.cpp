// Frames from a server.
#include "websocket.h"

namespace atl::fuzz {

void websocket_client(std::string_view input) {
  check_websocket(http::WebSocketRole::kClient, input);
}

Seeds websocket_client_seeds() {
  return websocket_frames(http::WebSocketRole::kServer);
}

}  // namespace atl::fuzz
