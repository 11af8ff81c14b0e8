// What a WebSocket decoder makes of bytes, and that every message survives our own encoder.
#pragma once

#include "base/strings.h"
#include "fuzz.h"
#include "http/websocket_codec.h"

namespace atl::fuzz {

inline constexpr std::size_t kMaxSocketMessageBytes = 300;

inline http::WebSocketRole other(http::WebSocketRole role) {
  return role == http::WebSocketRole::kServer ? http::WebSocketRole::kClient
                                              : http::WebSocketRole::kServer;
}

inline std::string describe(const http::WebSocketMessage& message) {
  return concat(static_cast<int>(message.kind), " ", message.close_code, " ", message.payload,
                "\n");
}

inline void check_message_survives(http::WebSocketRole role,
                                   const http::WebSocketMessage& message) {
  using Kind = http::WebSocketMessage::Kind;
  if (message.kind == Kind::kClose && message.close_code == 1005) {
    return;  // no code at all, which nobody may send
  }
  http::WebSocketDecoder decoder{role, kMaxSocketMessageBytes};
  decoder.feed(message.kind == Kind::kClose
                   ? encode_websocket_close(other(role), message.close_code, message.payload)
                   : encode_websocket(other(role), message.kind, message.payload));
  const auto again = decoder.next();
  CHECK(again && *again && describe(**again) == describe(message));
}

inline void check_websocket(http::WebSocketRole role, std::string_view input) {
  same_for_every_cut(input, [role](const auto& parts) {
    http::WebSocketDecoder decoder{role, kMaxSocketMessageBytes};
    std::string seen;
    for (const auto part : parts) {
      decoder.feed(part);
      for (;;) {
        const auto message = decoder.next();
        if (!message) {
          return seen + concat("broken ", decoder.close_code());
        }
        if (!*message) {
          break;
        }
        CHECK((*message)->payload.size() <= kMaxSocketMessageBytes);
        check_message_survives(role, **message);
        seen += describe(**message);
      }
    }
    return seen;
  });
  (void)http::websocket_accept(input);
}

// The same conversation, masked or not.
inline Seeds websocket_frames(http::WebSocketRole sender) {
  using Kind = http::WebSocketMessage::Kind;
  const auto flag = [](std::string frame, int first_byte) {
    frame[0] = static_cast<char>(first_byte);
    return frame;
  };
  const auto text = [sender](std::string_view payload) {
    return encode_websocket(sender, Kind::kText, payload);
  };
  return {
      text("hello") + encode_websocket(sender, Kind::kBinary, std::string("\0\xff", 2)),
      encode_websocket(sender, Kind::kPing, "p") + encode_websocket(sender, Kind::kPong, ""),
      encode_websocket_close(sender, 1000, "bye"),
      encode_websocket_close(sender, 1005, ""),
      encode_websocket_close(sender, 999, ""),
      encode_websocket_close(sender, 3000, "\xff"),
      flag(text("ab"), 0x01) + encode_websocket(sender, Kind::kPing, "") + flag(text("c"), 0x80),
      flag(text("a"), 0x80),                          // a continuation of nothing
      flag(text("a"), 0x01) + flag(text("b"), 0x81),  // a message amid another
      flag(text("a"), 0xc1),                          // a reserved bit
      flag(text("a"), 0x83),                          // a reserved opcode
      flag(text("a"), 0x09),                          // a control frame in pieces
      text(std::string(126, 'x')),                    // lengths of two bytes
      text(std::string(kMaxSocketMessageBytes + 1, 'x')),
      text("\xc3\x28"),
      flag(text("\xc3"), 0x01) + flag(text("\xa4"), 0x80),  // a character in two frames
      std::string("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10),
      std::string("\x81\x7e\x00\x05hello", 9),
      "dGhlIHNhbXBsZSBub25jZQ==",
  };
}

}  // namespace atl::fuzz
