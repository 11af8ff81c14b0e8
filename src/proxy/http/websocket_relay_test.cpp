// WebSockets through the proxy, with real frames and with what is none.
#include <gtest/gtest.h>

#include "http/websocket_codec.h"
#include "proxy/http/frame_gate.h"
#include "proxy/http/test_boundary.h"

namespace atl::proxy::http {
namespace {

const std::string kUpgrade =
    "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

std::string accepted() {
  return concat(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: ",
      *atl::http::websocket_accept("AAAAAAAAAAAAAAAAAAAAAA=="), "\r\n\r\n");
}

// After the upgrade: sends `bytes`, reads what comes back until the end or `mark`.
Task<std::string> upgrade_and_send(StreamPtr stream, std::string bytes, std::string mark) {
  CO_TRY_DO(co_await stream->write(kUpgrade));
  CO_TRY(auto head, co_await read_marks(*stream, "\r\n\r\n", 1));
  if (has(head, mark)) {
    co_return head;
  }
  CO_TRY_DO(co_await stream->write(bytes));
  CO_TRY(const auto rest, co_await read_marks(*stream, mark, 1));
  co_return head + rest;
}

Task<> echo_frames(StreamPtr stream, std::string& received) {
  CO_TRY_DO(co_await read_marks(*stream, "\r\n\r\n", 1));
  CO_TRY_DO(co_await stream->write(accepted()));
  std::array<char, 4096> buffer;
  for (;;) {
    CO_TRY(const auto got, co_await stream->read(buffer));
    if (got == 0) {
      co_return ok();
    }
    received.append(buffer.data(), got);
    CO_TRY_DO(co_await stream->write(atl::http::encode_websocket(
        atl::http::WebSocketRole::kServer, atl::http::WebSocketMessage::Kind::kText, "pong")));
  }
}

std::string run(TestBoundary& boundary, std::string& received, std::string bytes) {
  boundary.server = [&received](TestBoundary&, StreamPtr stream) {
    return echo_frames(std::move(stream), received);
  };
  auto got = boundary.reactor.run_until_complete(
      with_service<std::string>(boundary, [&bytes](TestBoundary&, StreamPtr stream) {
        return upgrade_and_send(std::move(stream), bytes, "pong");
      }));
  return got ? *got : got.error().message;
}

TEST(WebSocketRelay, FramesPassBothWays) {
  TestBoundary boundary;
  std::string received;
  const auto frame = atl::http::encode_websocket(atl::http::WebSocketRole::kClient,
                                                 atl::http::WebSocketMessage::Kind::kText, "ping");
  const auto got = run(boundary, received, frame);
  EXPECT_EQ(101, status_of(got)) << got;
  EXPECT_TRUE(got.ends_with("pong")) << got;
  EXPECT_EQ(frame, received);
}

TEST(WebSocketRelay, AnotherHostsPlaceholderEndsIt) {
  TestBoundary boundary;
  egress::Binding other{.ref = "other"};
  other.projection.kind = egress::ProjectionKind::kPlaceholders;
  other.projection.placeholders.push_back({.placeholder = "atl-placeholder-0123456789"});
  boundary.session->rules_->bindings.push_back(other);
  std::string received;
  const auto got = run(boundary, received,
                       atl::http::encode_websocket(atl::http::WebSocketRole::kClient,
                                                   atl::http::WebSocketMessage::Kind::kText,
                                                   "key atl-placeholder-0123456789"));
  EXPECT_EQ(101, status_of(got)) << got;
  EXPECT_FALSE(has(got, "pong"));
  EXPECT_EQ("", received);
}

TEST(WebSocketRelay, OtherBytesEndIt) {
  TestBoundary boundary;
  std::string received;
  const auto got = run(boundary, received, "GET /evil HTTP/1.1\r\nHost: evil.test\r\n\r\n");
  EXPECT_FALSE(has(got, "pong")) << got;
  EXPECT_EQ("", received);
}

TEST(WebSocketRelay, AnAnswerWithoutTheRightKeyIsNoUpgrade) {
  TestBoundary boundary;
  Script script{.replies = {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n"}};
  boundary.server = [&script](TestBoundary&, StreamPtr stream) {
    return play_plain(std::move(stream), script);
  };
  auto got = boundary.reactor.run_until_complete(
      with_service<std::string>(boundary, [](TestBoundary&, StreamPtr stream) {
        return upgrade_and_send(std::move(stream), "", "atoll why");
      }));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(502, status_of(*got)) << *got;
}

TEST(FrameGate, KnowsFramesHoweverTheyAreCut) {
  const auto frame = atl::http::encode_websocket(atl::http::WebSocketRole::kClient,
                                                 atl::http::WebSocketMessage::Kind::kBinary,
                                                 std::string(70000, 'x'));
  FrameGate gate{true};
  for (const char c : frame + frame) {
    ASSERT_TRUE(gate.pass({&c, 1}));
  }
  EXPECT_FALSE(FrameGate{false}.pass(frame));
  EXPECT_FALSE(FrameGate{true}.pass("SSH-2.0-OpenSSH\r\n"));
}

}  // namespace
}  // namespace atl::proxy::http
