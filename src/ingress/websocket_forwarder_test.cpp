// WebSockets through the forwarder, to a service and from a client that do what the test wants.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/websocket_handshake.h"
#include "ingress/forwarder.h"

namespace atl::ingress {
namespace {

class WebSocketForwarderTest : public testing::Test {
 protected:
  Task<Fd> dial() {
    CO_TRY(const auto stream, co_await io::connect_tcp(reactor_, "127.0.0.1", service_.port()));
    Fd fd{::fcntl(stream->fd(), F_DUPFD_CLOEXEC, 0)};
    co_return std::move(fd);
  }

  static Task<std::string> read_head(io::Stream& stream) {
    std::string head;
    std::string one(1, '\0');
    while (!head.ends_with("\r\n\r\n")) {
      CO_TRY(const auto got, co_await stream.read(one));
      if (got == 0) {
        break;
      }
      head += one;
    }
    co_return std::move(head);
  }

  // Sends more than all buffers hold, and tells when something came in.
  Task<> serve() {
    CO_TRY(const auto stream, co_await service_.accept());
    CO_TRY(const std::string head, co_await read_head(*stream));
    constexpr std::string_view kName = "sec-websocket-key: ";
    const auto key = head.substr(head.find(kName) + kName.size(), 24);
    CO_TRY_DO(co_await stream->write(
        concat("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Accept: ",
               http::websocket_accept(key).value_or(""), "\r\n\r\n")));
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("messages", send_messages(*stream));
    std::string buffer(1, '\0');
    (void)co_await stream->read(buffer);
    heard_.set();
    Event never;
    (void)co_await never.wait();
    co_return co_await scope.cancel_and_join();
  }
  static Task<> send_messages(io::Stream& stream) {
    const std::string message =
        concat(std::string_view{"\x82\x7f\0\0\0\0\0\x08\0\0", 10}, std::string(512 * 1024, 'x'));
    for (int i = 0; i < 64; ++i) {
      CO_TRY_DO(co_await stream.write(message));
    }
    co_return ok();
  }

  Task<> forward(http::Exchange& exchange) {
    Forward forward;
    forward.upstream = {.sandbox_id = "rs-x", .port = 80};
    forward.method = "GET";
    forward.path = "/";
    forward.fields = request_fields(exchange.request(), {.peer = exchange.peer()});
    auto forwarded = co_await forward_websocket(exchange, upstreams_, forward, traffic_);
    ended_.set();
    co_return std::move(forwarded);
  }

  // Until a message waits for the client to read.
  Task<> wait_until_stuck() const {
    std::uint64_t before = 0;
    do {
      before = traffic_.bytes_out;
      CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{100}));
    } while (before == 0 || before != traffic_.bytes_out);
    co_return ok();
  }

  Task<> leave_without_reading() {
    http::Server server{reactor_,
                        *io::Listener::bind_tcp("127.0.0.1", 0),
                        [this](http::Exchange& exchange) { return forward(exchange); },
                        {},
                        metrics_};
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("service", serve());
    scope.spawn("server", server.run());
    CO_TRY(const auto client, co_await io::connect_tcp(reactor_, "127.0.0.1", server.port()));
    CO_TRY_DO(co_await client->write(
        "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
    CO_TRY(const std::string head, co_await read_head(*client));
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101 ")) << head;
    CO_TRY_DO(co_await wait_until_stuck());
    CO_TRY_DO(client->finish_writing());
    CO_TRY_DO(co_await heard_.wait());
    std::string buffer(65536, '\0');
    for (;;) {
      const auto got = co_await client->read(buffer);
      if (!got || *got == 0) {
        break;
      }
    }
    CO_TRY_DO(co_await ended_.wait());
    co_return co_await scope.cancel_and_join();
  }

  io::Reactor reactor_;
  Metrics metrics_;
  io::Listener service_{reactor_, *io::Listener::bind_tcp("127.0.0.1", 0)};
  Upstreams upstreams_{reactor_, [this](std::string, std::string, std::uint16_t) { return dial(); },
                       nullptr};
  Traffic traffic_;
  Event heard_;
  Event ended_;
};

// Both pumps are at work then: one waits for the client to read, the other says goodbye.
TEST_F(WebSocketForwarderTest, ClientThatLeavesWithoutReadingEndsItsOwnSocketOnly) {
  const auto done =
      reactor_.run_until_complete(with_deadline(std::chrono::seconds{40}, leave_without_reading()));
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(traffic_.status, 101);
}

TEST(WantsWebSocket, IsAGet) {
  http::Request request{.method = "GET", .target = "/", .path = "/", .query = {}};
  request.headers = {{"upgrade", "websocket"}};
  EXPECT_TRUE(wants_websocket(request));
  request.method = "POST";
  EXPECT_FALSE(wants_websocket(request));
}

}  // namespace
}  // namespace atl::ingress
