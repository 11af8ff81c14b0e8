// A WebSocket: whole messages over a stream, after the handshake has made the stream its own.
//
// One task receives, any number send. receive() does the protocol's chores: it answers pings,
// sends one every ping interval, gives a silent peer up, and answers a close. So a handler that
// wants to notice the end must be receiving. A send waits until the stream has taken the whole
// frame: a slow reader slows its writer down and loses nothing, and while a writer waits for the
// peer the peer's silence is not held against it (the kernel's probes notice a dead machine).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/websocket_codec.h"
#include "io/stream.h"

namespace atl::http {

struct WebSocketOptions {
  std::size_t max_message_bytes = std::size_t{16} * 1024 * 1024;
  Duration ping_interval = std::chrono::seconds{30};
  int max_unanswered_pings = 2;
  Duration close_timeout = std::chrono::seconds{5};
  std::string protocol;  // the subprotocol to agree on, empty: none
};

// What a socket shares with the connection under it; it outlives both.
struct WebSocketLink {
  bool close_sent = false;
  bool broken = false;      // nothing may be written any more
  bool going_away = false;  // the server drains
  CancelState* waiting = nullptr;

  void go_away() {
    going_away = true;
    if (waiting != nullptr) {
      waiting->cancel();
    }
  }
};

class WebSocket {
 public:
  WebSocket(std::unique_ptr<io::Stream> stream, WebSocketRole role, WebSocketOptions options,
            std::shared_ptr<WebSocketLink> link = std::make_shared<WebSocketLink>());
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  // The next text, binary or close message. A close is the last one; its code is 1006 when the
  // peer vanished without a word, 1001 when our own server stops. Fails when the peer breaks the
  // protocol, after telling it so.
  Task<WebSocketMessage> receive();
  // The bytes must stay valid until it returns. Text must be UTF-8.
  Task<> send_text(std::string_view text);
  Task<> send_binary(std::string_view bytes);
  // Sends a close and waits for no answer: for who has somebody else receiving.
  Task<> send_close(std::uint16_t code, std::string reason);
  // Sends a close and, when nobody is receiving, waits a moment for the peer's.
  Task<> close(std::uint16_t code, std::string reason);

 private:
  using Kind = WebSocketMessage::Kind;
  Task<WebSocketMessage> next_message();
  // True: look at the decoder again. False: the peer is gone.
  Task<bool> fill();
  Task<bool> wait_for_bytes();
  // False when the peer has been silent for too long.
  Task<bool> ping_peer();
  Task<> answer_ping(std::string payload);
  Task<WebSocketMessage> end_with(std::uint16_t code, std::string reason);
  Task<> send(Kind kind, std::string_view payload);
  Task<> write_frame(std::string frame);

  std::unique_ptr<io::Stream> stream_;
  const WebSocketRole role_;
  const WebSocketOptions options_;
  std::shared_ptr<WebSocketLink> link_;  // shared with the connection
  WebSocketDecoder decoder_;
  std::string buffer_;
  bool receiving_ = false;
  bool ended_ = false;
  bool writing_ = false;
  Event written_;
  std::optional<std::string> pending_pong_;
  int unanswered_pings_ = 0;
  unsigned fills_ = 0;
};

}  // namespace atl::http
