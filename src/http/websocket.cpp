#include "http/websocket.h"

#include "base/strings.h"

namespace atl::http {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{16} * 1024;
constexpr std::uint16_t kGoingAway = 1001;
constexpr std::uint16_t kNoCode = 1005;
constexpr std::uint16_t kVanished = 1006;
constexpr unsigned kFillsPerTurn = 32;

WebSocketMessage close_message(std::uint16_t code, std::string reason) {
  return {.kind = WebSocketMessage::Kind::kClose, .payload = std::move(reason), .close_code = code};
}

}  // namespace

WebSocket::WebSocket(std::unique_ptr<io::Stream> stream, WebSocketRole role,
                     WebSocketOptions options, std::shared_ptr<WebSocketLink> link)
    : stream_(std::move(stream)),
      role_(role),
      options_(std::move(options)),
      link_(std::move(link)),
      decoder_(role, options_.max_message_bytes),
      buffer_(kBufferBytes, '\0') {}

Task<WebSocketMessage> WebSocket::receive() {
  if (ended_) {
    co_return fail(Code::kFailedPrecondition, "the WebSocket is closed", "websocket_closed");
  }
  if (receiving_) {
    co_return fail(Code::kFailedPrecondition, "somebody else is receiving already");
  }
  receiving_ = true;
  auto message = co_await next_message();
  receiving_ = false;
  if (!message || message->kind == Kind::kClose) {
    ended_ = true;
  }
  co_return std::move(message);
}

Task<WebSocketMessage> WebSocket::next_message() {
  for (;;) {
    if (link_->going_away && !link_->close_sent) {
      co_return co_await end_with(kGoingAway, "the server stops");
    }
    auto next = decoder_.next();
    if (!next) {
      (void)co_await send_close(decoder_.close_code(), next.error().message);
      co_return fail(std::move(next).error());
    }
    if (!*next) {
      CO_TRY(const bool more, co_await fill());
      if (!more) {
        link_->broken = true;
        co_return close_message(kVanished, "the peer left without a close");
      }
      continue;
    }
    WebSocketMessage& message = **next;
    switch (message.kind) {
      case Kind::kPing:
        CO_TRY_DO(co_await answer_ping(std::move(message.payload)));
        break;
      case Kind::kPong:
        break;
      case Kind::kClose:
        // The peer may be gone already; its close is what counts.
        (void)co_await send_close(message.close_code == kNoCode ? 1000 : message.close_code, {});
        co_return std::move(message);
      case Kind::kText:
      case Kind::kBinary:
        co_return std::move(message);
    }
  }
}

Task<WebSocketMessage> WebSocket::end_with(std::uint16_t code, std::string reason) {
  (void)co_await send_close(code, reason);
  co_return close_message(code, std::move(reason));
}

Task<bool> WebSocket::fill() {
  if (++fills_ % kFillsPerTurn == 0) {
    CO_TRY_DO(co_await sleep_for(Duration::zero()));
  }
  CO_TRY(const bool ready, co_await wait_for_bytes());
  if (!ready) {
    co_return !link_->broken;
  }
  auto got = co_await stream_->read(buffer_);
  if (!got && got.error().code == Code::kCancelled) {
    co_return fail(std::move(got).error());
  }
  if (!got || *got == 0) {
    co_return false;
  }
  unanswered_pings_ = 0;
  decoder_.feed(std::string_view{buffer_}.substr(0, *got));
  co_return true;
}

// False: woken for another reason than bytes.
Task<bool> WebSocket::wait_for_bytes() {
  TaskContext& outer = co_await current_context();
  for (;;) {
    CancelState cancel{outer.cancel};
    TaskContext inner{outer.loop, &cancel};
    link_->waiting = &cancel;
    auto ready =
        co_await with_deadline(options_.ping_interval, stream_->wait_readable()).under(inner);
    link_->waiting = nullptr;
    if (ready) {
      co_return true;
    }
    if (outer.cancel->cancelled()) {
      co_return fail(std::move(ready).error());
    }
    if (ready.error().code != Code::kDeadlineExceeded) {
      link_->broken = link_->broken || ready.error().code != Code::kCancelled;
      co_return false;
    }
    CO_TRY(const bool alive, co_await ping_peer());
    if (!alive) {
      link_->broken = true;
      co_return false;
    }
  }
}

Task<bool> WebSocket::ping_peer() {
  if (writing_) {
    unanswered_pings_ = 0;  // it reads slowly: no ping could get through
    co_return true;
  }
  if (unanswered_pings_ >= options_.max_unanswered_pings) {
    co_return false;
  }
  ++unanswered_pings_;
  if (!link_->close_sent) {
    auto sent = co_await write_frame(encode_websocket(role_, Kind::kPing, {}));
    if (!sent && sent.error().code == Code::kCancelled) {
      co_return fail(std::move(sent).error());
    }
    co_return sent.has_value();
  }
  co_return true;
}

// A receiver never waits for a writer: the peer may be reading only after it has sent. Whoever is
// writing takes the answer along; only the latest ping needs one.
Task<> WebSocket::answer_ping(std::string payload) {
  if (link_->close_sent || link_->broken) {
    co_return ok();
  }
  if (writing_) {
    pending_pong_ = std::move(payload);
    co_return ok();
  }
  co_return co_await write_frame(encode_websocket(role_, Kind::kPong, payload));
}

Task<> WebSocket::write_frame(std::string frame) {
  while (writing_) {
    CO_TRY_DO(co_await written_.wait());
  }
  if (link_->broken) {
    co_return fail(Code::kUnavailable, "the WebSocket is broken", "websocket_closed");
  }
  writing_ = true;
  written_.clear();
  auto sent = co_await stream_->write(frame);
  while (sent && pending_pong_ && !link_->close_sent) {
    const auto pong = encode_websocket(role_, Kind::kPong, *std::exchange(pending_pong_, {}));
    sent = co_await stream_->write(pong);
  }
  writing_ = false;
  written_.set();
  // A write that failed or was cancelled may have left half a frame behind.
  link_->broken = link_->broken || !sent;
  co_return std::move(sent);
}

Task<> WebSocket::send(Kind kind, std::string_view payload) {
  if (link_->close_sent) {
    co_return fail(Code::kUnavailable, "the WebSocket is closed", "websocket_closed");
  }
  co_return co_await write_frame(encode_websocket(role_, kind, payload));
}

Task<> WebSocket::send_text(std::string_view text) {
  return send(Kind::kText, text);
}
Task<> WebSocket::send_binary(std::string_view bytes) {
  return send(Kind::kBinary, bytes);
}

Task<> WebSocket::send_close(std::uint16_t code, std::string reason) {
  if (std::exchange(link_->close_sent, true)) {
    co_return ok();
  }
  auto frame = encode_websocket_close(role_, code, reason);
  co_return co_await with_deadline(options_.close_timeout, write_frame(std::move(frame)));
}

Task<> WebSocket::close(std::uint16_t code, std::string reason) {
  CO_TRY_DO(co_await send_close(code, std::move(reason)));
  if (receiving_ || ended_) {
    co_return ok();
  }
  struct Steps {
    static Task<> until_close(WebSocket& socket) {
      for (;;) {
        CO_TRY(const auto message, co_await socket.receive());
        if (message.kind == Kind::kClose) {
          co_return ok();
        }
      }
    }
  };
  auto closed = co_await with_deadline(options_.close_timeout, Steps::until_close(*this));
  if (!closed && closed.error().code == Code::kCancelled) {
    co_return std::move(closed);
  }
  co_return ok();  // a peer that does not answer a close is none of the caller's business
}

}  // namespace atl::http
