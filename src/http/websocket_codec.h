// WebSocket framing (RFC 6455) without I/O: bytes in, messages out.
//
// The decoder is strict, as the RFC demands of both ends: masking in the right direction, no
// reserved bits or opcodes, control frames whole and short, text valid UTF-8, close codes legal,
// lengths minimal. A message never grows beyond its limit. After an error the connection must be
// closed with `close_code`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::http {

enum class WebSocketRole : std::uint8_t { kServer, kClient };

struct WebSocketMessage {
  enum class Kind : std::uint8_t { kText, kBinary, kPing, kPong, kClose };
  Kind kind = Kind::kText;
  std::string payload;              // of a close: the reason
  std::uint16_t close_code = 1005;  // of a close; 1005: none was given
};

class WebSocketDecoder {
 public:
  // `role` is ours: a server expects masked frames, a client unmasked ones.
  WebSocketDecoder(WebSocketRole role, std::size_t max_message_bytes)
      : role_(role), max_message_bytes_(max_message_bytes) {}

  void feed(std::string_view bytes) { input_.append(bytes); }
  // The next complete message; nullopt: more bytes are needed.
  Result<std::optional<WebSocketMessage>> next();
  // What to close with after next() failed.
  std::uint16_t close_code() const { return close_code_; }

 private:
  struct FrameHead {
    bool final = false;
    std::uint8_t opcode = 0;
    bool masked = false;
    std::uint64_t length = 0;
    char mask[4] = {};
    std::size_t bytes = 0;
  };
  std::unexpected<Error> broken(std::uint16_t code, std::string message);
  Result<std::optional<FrameHead>> parse_head();
  Result<> check_head(const FrameHead& head);
  Result<std::optional<WebSocketMessage>> take_control(const FrameHead& head, std::string payload);

  const WebSocketRole role_;
  const std::size_t max_message_bytes_;
  std::string input_;
  std::string message_;
  std::optional<WebSocketMessage::Kind> message_kind_;  // a fragmented message is under way
  std::uint16_t close_code_ = 1002;
};

// One whole frame. A client's frames are masked with a fresh random key.
std::string encode_websocket(WebSocketRole role, WebSocketMessage::Kind kind,
                             std::string_view payload);
std::string encode_websocket_close(WebSocketRole role, std::uint16_t code, std::string_view reason);

// Sec-WebSocket-Accept for a Sec-WebSocket-Key; nullopt when the key is not 16 bytes of base64.
std::optional<std::string> websocket_accept(std::string_view key);

}  // namespace atl::http
