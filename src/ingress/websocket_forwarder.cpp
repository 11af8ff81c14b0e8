// WebSockets through the gateway: a handshake with the service, then one with the client, then
// messages in both directions, taken apart and written anew; one is held at a time, and not for a
// reader that takes none of it. Compression is not agreed on with
// either side. Either side's end is the other's.
#include "base/random.h"
#include "base/strings.h"
#include "http/http1_gate.h"
#include "http/websocket_handshake.h"
#include "ingress/forwarder.h"

namespace atl::ingress {
namespace {

constexpr Duration kHandshakeTimeout = std::chrono::seconds{30};
constexpr Duration kCloseTimeout = std::chrono::seconds{5};
constexpr Duration kStallTimeout = std::chrono::seconds{60};
constexpr std::size_t kMaxMessageBytes = std::size_t{1024} * 1024;

void ignore_errors(const char*, const Error&) {}

Result<std::string> handshake_head(const http::Request& request, const Forward& forward,
                                   const std::string& key) {
  std::string lines = concat(
      "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n"
      "sec-websocket-key: ",
      key, "\r\n");
  for (const auto& [name, value] : request.headers.lines()) {
    if (equals_ignore_case(name, "sec-websocket-protocol")) {
      if (!http::is_field_value(value)) {
        return fail(Code::kInvalidArgument, "a header of the request cannot be passed on");
      }
      lines += concat("sec-websocket-protocol: ", value, "\r\n");
    }
  }
  return request_head("GET", forward.path, forward.fields, lines);
}

// The subprotocol that the service chose, empty when none.
Result<std::string> judge_answer(const http::Http1Head& answer, const http::Request& request,
                                 const std::string& key) {
  const auto protocol = answer.headers.get("sec-websocket-protocol");
  if (!http::list_has_token(answer.headers, "upgrade", "websocket") ||
      !http::list_has_token(answer.headers, "connection", "upgrade") ||
      answer.headers.get("sec-websocket-accept") != http::websocket_accept(key) ||
      answer.headers.has("sec-websocket-extensions") ||
      (!protocol.empty() &&
       !http::list_has_token(request.headers, "sec-websocket-protocol", protocol))) {
    return fail(Code::kUnavailable, "the service's answer is not a WebSocket handshake",
                "malformed_message");
  }
  return std::string{protocol};
}

// Codes that say why there is none are not for the wire.
std::uint16_t close_code(std::uint16_t code) {
  return code == 1005 ? 1000 : code == 1006 || code == 1015 ? 1001 : code;
}

// A goodbye only goes out: the answer to it is for the other pump, which receives there.
Task<> pump(http::WebSocket& from, http::WebSocket& to, std::uint64_t& bytes) {
  using Kind = http::WebSocketMessage::Kind;
  for (;;) {
    auto message = co_await from.receive();
    if (!message) {
      (void)co_await to.send_close(1011, {});
      co_return fail(std::move(message).error());
    }
    if (message->kind == Kind::kClose) {
      co_return co_await to.send_close(close_code(message->close_code),
                                       std::move(message->payload));
    }
    bytes += message->payload.size();
    auto sent = message->kind == Kind::kText ? to.send_text(message->payload)
                                             : to.send_binary(message->payload);
    CO_TRY_DO(co_await with_deadline(kStallTimeout, std::move(sent)));
  }
}

Task<> pump_and_tell(http::WebSocket& from, http::WebSocket& to, std::uint64_t& bytes,
                     Event& ended) {
  auto pumped = co_await pump(from, to, bytes);
  ended.set();
  co_return std::move(pumped);
}

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

Task<> exchange_messages(http::WebSocket& client, http::WebSocket& service, Traffic& traffic) {
  Event first;
  Event second;
  Scope pumps{co_await current_context()};
  pumps.on_error(ignore_errors);
  pumps.spawn("to the service", pump_and_tell(client, service, traffic.bytes_in, first));
  pumps.spawn("to the client", pump_and_tell(service, client, traffic.bytes_out, second));
  // One end is over: the other has a moment to say goodbye.
  Scope watching{co_await current_context()};
  Event any;
  struct Steps {
    static Task<> tell(Event& from, Event& to) {
      CO_TRY_DO(co_await from.wait());
      to.set();
      co_return ok();
    }
  };
  watching.on_error(ignore_errors);
  watching.spawn("first", Steps::tell(first, any));
  watching.spawn("second", Steps::tell(second, any));
  auto over = co_await any.wait();
  (void)co_await watching.cancel_and_join();
  if (over) {
    (void)co_await with_deadline(kCloseTimeout, wait_for(first));
    (void)co_await with_deadline(kCloseTimeout, wait_for(second));
  }
  (void)co_await pumps.cancel_and_join();
  co_return std::move(over);
}

}  // namespace

bool wants_websocket(const http::Request& request) {
  // On HTTP/2 there is no Upgrade field; its version field is still there. What goes to the service
  // is a GET, and so must be what the route was chosen for.
  return request.method == "GET" &&
         (http::list_has_token(request.headers, "upgrade", "websocket") ||
          request.headers.has("sec-websocket-version"));
}

Task<> forward_websocket(http::Exchange& exchange, Upstreams& upstreams, Forward forward,
                         Traffic& traffic) {
  const std::string key = base64_encode(random_bytes(16));
  CO_TRY(const std::string head, handshake_head(exchange.request(), forward, key));
  CO_TRY(auto taken, co_await upstreams.take(forward.upstream, true));
  const std::shared_ptr<http::ClientConnection> connection = std::move(taken.connection);
  CO_TRY_DO(co_await connection->wire.write(head));
  const Duration patience =
      forward.timeout == Duration::zero() ? kHandshakeTimeout : forward.timeout;
  CO_TRY_DO(co_await with_deadline(patience, read_answer_head(*connection, false, true)));
  const http::Http1Head& answer = connection->wire.parser().head();
  if (answer.status != 101) {
    co_return co_await send_answer(exchange, *connection, forward, traffic);
  }
  CO_TRY(std::string protocol, judge_answer(answer, exchange.request(), key));
  auto stream = std::make_unique<http::UpgradedStream>(connection->wire, *connection->stream,
                                                       nullptr, nullptr, connection);
  http::WebSocket service{
      std::move(stream), http::WebSocketRole::kClient, {.max_message_bytes = kMaxMessageBytes}};
  CO_TRY(const auto client,
         co_await exchange.accept_websocket(
             {.max_message_bytes = kMaxMessageBytes, .protocol = std::move(protocol)}));
  traffic.status = 101;
  co_return co_await exchange_messages(*client, service, traffic);
}

}  // namespace atl::ingress
