// A server for tests that speak HTTP/2 by hand.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/h2_frame_bytes.h"
#include "http/test_server.h"

namespace atl::http::frames {

using namespace std::chrono_literals;

struct Counts {
  int handled = 0;
  int running = 0;
  int most_running = 0;
  std::uint64_t bytes = 0;
  Event go;
};

inline Task<> serve(Exchange& exchange, Counts& counts) {
  ++counts.handled;
  const auto& path = exchange.request().path;
  if (path == "/hold") {
    counts.most_running = std::max(counts.most_running, ++counts.running);
    auto waited = co_await exchange.client_gone();
    // Still busy with it for a while, as a handler may be.
    if (waited) {
      waited = co_await sleep_for(20ms);
    }
    --counts.running;
    co_return std::move(waited);
  }
  if (path == "/sink") {
    CO_TRY_DO(co_await counts.go.wait());
    std::string buffer(10'000, '\0');
    for (;;) {
      CO_TRY(const auto got, co_await exchange.body().read(buffer));
      if (got == 0) {
        co_return co_await exchange.respond({200, {}, "done"});
      }
      counts.bytes += got;
    }
  }
  if (path == "/ws") {
    CO_TRY(auto socket, co_await exchange.accept_websocket({}));
    for (;;) {
      CO_TRY(const auto message, co_await socket->receive());
      if (message.kind == WebSocketMessage::Kind::kClose) {
        co_return ok();
      }
      CO_TRY_DO(co_await socket->send_text(message.payload));
    }
  }
  if (path == "/large") {
    const std::string piece(10'000, 'x');
    CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
    for (int i = 0; i < 100; ++i) {
      CO_TRY_DO(co_await exchange.write(piece));
      counts.bytes += piece.size();
    }
    co_return co_await exchange.finish();
  }
  co_return co_await exchange.respond({200, {}, "hello"});
}

struct Rig {
  explicit Rig(ServerLimits limits = {.idle_timeout = 100ms})
      : server([this](Exchange& exchange) { return serve(exchange, counts); }, limits) {}
  std::vector<Frame> talk(std::string bytes) {
    auto answer = server.run(exchange_raw(server, std::move(bytes)));
    EXPECT_TRUE(answer);
    return answer ? parse(*answer) : std::vector<Frame>{};
  }
  Counts counts;
  TestServer server;
};

}  // namespace atl::http::frames
