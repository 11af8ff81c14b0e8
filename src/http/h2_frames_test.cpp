// HTTP/2 frame by frame: flow control, WebSockets, draining, idle connections.
#include "http/h2_frames.h"

#include <gtest/gtest.h>

#include <map>

namespace atl::http::frames {
namespace {

TEST(Http2Frames, AGetIsAnsweredAndAnIdleConnectionEndsWithGoaway) {
  Rig rig;
  const auto frames = rig.talk(start() + get(1));
  ASSERT_GE(frames.size(), 4U);
  EXPECT_EQ(kSettings, frames.front().type);
  EXPECT_EQ(kGoAway, frames.back().type);
  EXPECT_EQ(0U, frames.back().code());
  std::string body;
  for (const auto& each : frames) {
    body += each.type == kData ? each.payload : "";
  }
  EXPECT_EQ("hello", body);
  EXPECT_EQ(0, rig.server.metrics().gauge("atoll_http2_streams_open", "").value());
}

TEST(Http2Frames, TheWindowOpensOnlyAsTheHandlerReads) {
  Rig rig{{.idle_timeout = 5s}};
  struct Steps {
    static std::uint64_t granted(const std::vector<Frame>& frames, std::uint32_t stream) {
      std::uint64_t sum = 0;
      for (const auto& each : frames) {
        sum += each.type == kWindow && each.stream == stream ? each.code() : 0;
      }
      return sum;
    }
    static Task<> run(Rig& rig) {
      CO_TRY(auto stream, co_await connect_raw(rig.server));
      std::string bytes =
          start() + frame(kHeaders, kEndHeaders, 1, request_fields("POST", "/sink"));
      for (int i = 0; i < 4; ++i) {  // as much as the window allows before settings are agreed
        bytes += frame(kData, 0, 1, std::string(16'000, 'd'));
      }
      CO_TRY_DO(co_await stream->write(bytes));
      std::string seen;
      std::string buffer(65536, '\0');
      const auto read_for = [](io::Stream& from, std::string& all, std::string& into) -> Task<> {
        for (;;) {
          CO_TRY(const auto got, co_await from.read(into));
          all.append(into, 0, got);
        }
      };
      (void)co_await with_deadline(100ms, read_for(*stream, seen, buffer));
      EXPECT_EQ(0U, granted(parse(seen), 1));
      EXPECT_EQ(0U, rig.counts.bytes);
      rig.counts.go.set();
      (void)co_await with_deadline(100ms, read_for(*stream, seen, buffer));
      EXPECT_EQ(64'000U, rig.counts.bytes);
      EXPECT_GT(granted(parse(seen), 1), 30'000U);
      co_return ok();
    }
  };
  const auto done = rig.server.run(Steps::run(rig));
  EXPECT_TRUE(done) << done.error().message;
}

TEST(Http2Frames, AWriterWaitsForThePeersWindow) {
  Rig rig{{.stall_timeout = 2s}};
  struct Steps {
    static Task<std::string> run(Rig& rig) {
      CO_TRY(auto stream, co_await connect_raw(rig.server));
      CO_TRY_DO(co_await stream->write(start() + get(1, "/large")));
      CO_TRY_DO(co_await sleep_for(100ms));
      EXPECT_LT(rig.counts.bytes, 100'000U);  // the window of 65,535 and what is under way
      CO_TRY_DO(co_await stream->write(frame(kWindow, 0, 0, number(10'000'000)) +
                                       frame(kWindow, 0, 1, number(10'000'000))));
      std::string seen;
      std::string buffer(65536, '\0');
      std::size_t body = 0;
      while (body < 1'000'000) {
        CO_TRY(const auto got, co_await stream->read(buffer));
        if (got == 0) {
          break;
        }
        seen.append(buffer, 0, got);
        body = 0;
        for (const auto& each : parse(seen)) {
          body += each.type == kData ? each.payload.size() : 0;
        }
      }
      EXPECT_EQ(1'000'000U, body);
      co_return std::move(seen);
    }
  };
  EXPECT_TRUE(rig.server.run(Steps::run(rig)));
}

std::string connect_fields(std::string_view protocol) {
  return request_fields("CONNECT", "/ws") + field(":protocol", protocol) +
         field("sec-websocket-version", "13");
}

TEST(Http2Frames, AWebSocketRunsInAStream) {
  Rig rig;
  const auto hello = encode_websocket(WebSocketRole::kClient, WebSocketMessage::Kind::kText, "hey");
  const auto bye = encode_websocket_close(WebSocketRole::kClient, 1000, "");
  struct Steps {
    static Task<std::string> run(Rig& rig, std::string hello, std::string bye) {
      CO_TRY(auto stream, co_await connect_raw(rig.server));
      CO_TRY_DO(co_await stream->write(start()));
      // The extension counts once the settings that offer it are acknowledged.
      CO_TRY_DO(co_await read_until(*stream, std::string("\0\0\0\x04\x01\0\0\0\0", 9)));
      CO_TRY_DO(co_await stream->write(
          frame(kSettings, 1, 0, "") +
          frame(kHeaders, kEndHeaders, 1, connect_fields("websocket")) +
          frame(kData, 0, 1, hello.substr(0, 3)) + frame(kData, 0, 1, hello.substr(3)) + get(3) +
          frame(kHeaders, kEndHeaders, 5, connect_fields("other")) + frame(kData, 0, 1, bye)));
      co_return co_await read_to_end(*stream);
    }
  };
  const auto answer = rig.server.run(Steps::run(rig, hello, bye));
  ASSERT_TRUE(answer);
  std::map<std::uint32_t, std::string> bodies;
  for (const auto& each : parse(*answer)) {
    bodies[each.stream] += each.type == kData ? each.payload : "";
  }
  EXPECT_EQ("\x81\x03hey\x88\x02\x03\xe8", bodies[1]);
  EXPECT_EQ("hello", bodies[3]);
  EXPECT_NE(std::string::npos, bodies[5].find("bad_request"));
  EXPECT_EQ(0, rig.server.metrics().gauge("atoll_http_websockets_open", "").value());
}

TEST(Http2Frames, DrainingFinishesWhatIsUnderWay) {
  Rig rig{{}};
  struct Steps {
    static Task<std::string> run(Rig& rig) {
      CO_TRY(auto stream, co_await connect_raw(rig.server));
      CO_TRY_DO(co_await stream->write(
          start() + frame(kHeaders, kEndHeaders, 1, request_fields("POST", "/sink"))));
      while (rig.counts.handled == 0) {
        CO_TRY_DO(co_await sleep_for(1ms));
      }
      rig.server.server().drain();
      rig.counts.go.set();
      CO_TRY_DO(co_await stream->write(frame(kData, kEndStream, 1, "abc")));
      co_return co_await read_to_end(*stream);
    }
  };
  const auto answer = rig.server.run(Steps::run(rig));
  ASSERT_TRUE(answer);
  bool goaway = false;
  std::string body;
  for (const auto& each : parse(*answer)) {
    goaway = goaway || each.type == kGoAway;
    body += each.type == kData ? each.payload : "";
  }
  EXPECT_TRUE(goaway);
  EXPECT_EQ("done", body);
}

TEST(Http2Frames, MoreThanTheStreamsAllowedAreRefused) {
  Rig rig;
  std::string bytes = start();
  for (std::uint32_t i = 0; i < 300; ++i) {
    bytes += get(2 * i + 1, "/hold");
  }
  struct Steps {
    static Task<std::vector<Frame>> run(Rig& rig, std::string bytes) {
      CO_TRY(auto stream, co_await connect_raw(rig.server));
      CO_TRY_DO(co_await stream->write(bytes));
      std::string seen;
      std::string buffer(65536, '\0');
      for (std::size_t resets = 0; resets < 44;) {
        CO_TRY(const auto got, co_await stream->read(buffer));
        seen.append(buffer, 0, got);
        resets = 0;
        for (const auto& each : parse(seen)) {
          resets += each.type == kReset ? 1 : 0;
        }
        if (got == 0) {
          break;
        }
      }
      co_return parse(seen);
    }
  };
  const auto frames = rig.server.run(Steps::run(rig, bytes));
  ASSERT_TRUE(frames);
  EXPECT_EQ(256, rig.counts.most_running);
}

}  // namespace
}  // namespace atl::http::frames
