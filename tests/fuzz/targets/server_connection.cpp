// A whole connection of the server: whatever a client sends, HTTP/1, HTTP/2 or WebSocket, handled
// by a handler that reads and answers, until the connection ends. It always does.
#include "http/server_connection.h"

#include "base/scope.h"
#include "http/h2_frame_bytes.h"
#include "http/http1_vectors.h"
#include "http/websocket_codec.h"
#include "memory_stream.h"

namespace atl::fuzz {
namespace {

Task<> echo(http::WebSocket& socket) {
  for (;;) {
    CO_TRY(const auto message, co_await socket.receive());
    if (message.kind == http::WebSocketMessage::Kind::kClose) {
      co_return ok();
    }
    CO_TRY_DO(co_await socket.send_text("echo"));
  }
}

Task<> handle(http::Exchange& exchange) {
  if (exchange.request().path == "/ws") {
    CO_TRY(auto socket, co_await exchange.accept_websocket({.max_message_bytes = 300}));
    co_return co_await echo(*socket);
  }
  CO_TRY(const auto body, co_await http::read_all(exchange.body(), 1000));
  if (exchange.request().path == "/stream") {
    CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
    CO_TRY_DO(co_await exchange.write(body));
    co_return co_await exchange.finish();
  }
  co_return co_await exchange.respond({200, {}, body});
}

std::string upgrade() {
  return "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
         "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
}

}  // namespace

void server_connection(std::string_view bytes) {
  Input input{bytes};
  const auto cut = kCuts[input.number() % std::size(kCuts)];
  io::Reactor reactor;  // the core names one; nothing of this connection is on it
  Metrics metrics;
  http::ServerCore core{reactor, handle, {.header_bytes = 4096, .header_count = 32}, metrics, {}};
  ManualLoop loop;
  Scope scope{loop};
  scope.on_error([](const char*, const Error& error) { CHECK(!error.message.empty()); });
  http::ServerConnection connection{core, std::make_unique<MemoryStream>(input.rest(), cut), -1};
  scope.spawn("connection", connection.serve());
  for (int i = 0; i < 1000 && scope.running() > 0; ++i) {
    loop.advance(std::chrono::seconds{1});
  }
  CHECK(scope.running() == 0);
}

Seeds server_connection_seeds() {
  using namespace http::frames;
  using Kind = http::WebSocketMessage::Kind;
  constexpr auto kClient = http::WebSocketRole::kClient;
  const std::string first(1, '\2');
  Seeds seeds{
      first + upgrade() + encode_websocket(kClient, Kind::kText, "hello") +
          encode_websocket_close(kClient, 1000, ""),
      first + upgrade() + encode_websocket(kClient, Kind::kBinary, std::string(301, 'x')),
      first + start() + get(1, "/stream") + get(3),
      first + start() + frame(kHeaders, kEndHeaders, 1, request_fields("POST", "/stream")) +
          frame(kData, kEndStream, 1, "abc"),
      first + start() +
          frame(kHeaders, kEndHeaders, 1,
                field(":method", "CONNECT") + field(":protocol", "websocket") +
                    field(":scheme", "http") + field(":path", "/ws") + field(":authority", "x") +
                    field("sec-websocket-version", "13")) +
          frame(kData, 0, 1, encode_websocket(kClient, Kind::kText, "hello")),
      first +
          "POST /stream HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
          "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
  };
  for (const auto& vector : http::request_vectors()) {
    if (vector.bytes.size() < 1000) {
      seeds.push_back(concat(first, vector.bytes, http::kNextRequest));
    }
  }
  return seeds;
}

}  // namespace atl::fuzz
