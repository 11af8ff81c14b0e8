// HTTP/2 frame by frame: hostile clients, flow control, draining, idle connections.
#include <gtest/gtest.h>

#include <map>

#include "base/strings.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type : std::uint8_t {
  kData,
  kHeaders,
  kPriority,
  kReset,
  kSettings,
  kPush,
  kPing,
  kGoAway,
  kWindow,
  kContinuation
};
constexpr int kEndStream = 1;
constexpr int kEndHeaders = 4;

std::string number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift & 0xff);
  }
  return bytes;
}

std::string frame(Type type, int flags, std::uint32_t stream, std::string_view payload) {
  return number(static_cast<std::uint32_t>(payload.size())).substr(1) + static_cast<char>(type) +
         static_cast<char>(flags) + number(stream) + std::string{payload};
}

std::string start() {
  return concat(kPreface, frame(kSettings, 0, 0, ""));
}

// A literal field without indexing; both texts shorter than 127.
std::string field(std::string_view name, std::string_view value) {
  return concat('\0', static_cast<char>(name.size()), name, static_cast<char>(value.size()), value);
}

std::string request_fields(std::string_view method, std::string_view path) {
  return field(":method", method) + field(":scheme", "http") + field(":path", path) +
         field(":authority", "x");
}

std::string get(std::uint32_t stream, std::string_view path = "/") {
  return frame(kHeaders, kEndStream | kEndHeaders, stream, request_fields("GET", path));
}

struct Frame {
  int type = 0;
  int flags = 0;
  std::uint32_t stream = 0;
  std::string payload;
  std::uint32_t code() const {  // of a reset, or a goaway
    const std::size_t at = type == kGoAway ? 4 : 0;
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4 && i < payload.size(); ++i) {
      value = value << 8 | static_cast<unsigned char>(payload[i]);
    }
    return value;
  }
};

std::vector<Frame> parse(std::string_view bytes) {
  std::vector<Frame> frames;
  const auto read = [&bytes](std::size_t at, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + size; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return value;
  };
  while (bytes.size() >= 9 && bytes.size() >= 9 + read(0, 3)) {
    const auto size = read(0, 3);
    frames.push_back({.type = bytes[3],
                      .flags = bytes[4],
                      .stream = read(5, 4),
                      .payload = std::string{bytes.substr(9, size)}});
    bytes.remove_prefix(9 + size);
  }
  return frames;
}

struct Counts {
  int handled = 0;
  int running = 0;
  int most_running = 0;
  std::uint64_t bytes = 0;
  Event go;
};

Task<> serve(Exchange& exchange, Counts& counts) {
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

TEST(Http2Frames, HostileFramesEndTheConnection) {
  constexpr std::uint32_t kProtocol = 1;
  constexpr std::uint32_t kFlow = 3;
  constexpr std::uint32_t kSize = 6;
  constexpr std::uint32_t kCompression = 9;
  constexpr std::uint32_t kCalm = 11;
  struct Case {
    const char* what;
    std::string bytes;
    std::uint32_t code;
  };
  std::string pings;
  std::string settings;
  std::string priorities;
  std::string empty = frame(kHeaders, kEndHeaders, 1, request_fields("POST", "/sink"));
  std::string rapid;
  for (int i = 0; i < 3000; ++i) {
    const auto id = static_cast<std::uint32_t>(2 * i + 1);
    pings += frame(kPing, 0, 0, "12345678");
    settings += frame(kSettings, 0, 0, "");
    priorities += frame(kPriority, 0, 1, number(0) + 'x');
    empty += frame(kData, 0, 1, "");
    rapid += get(id, "/hold") + frame(kReset, 0, id, number(8));
  }
  const Case cases[] = {
      {"data on stream 0", frame(kData, 0, 0, "x"), kProtocol},
      {"data on an idle stream", frame(kData, 0, 5, "x"), kProtocol},
      {"headers on stream 0", frame(kHeaders, kEndHeaders, 0, request_fields("GET", "/")),
       kProtocol},
      {"headers on an even stream", get(2), kProtocol},
      {"settings of odd size", frame(kSettings, 0, 0, "12345"), kSize},
      {"settings on a stream", frame(kSettings, 0, 1, ""), kProtocol},
      {"a huge initial window", frame(kSettings, 0, 0, "\0\4"s + number(0x80000000)), kFlow},
      {"window update of 0 on the connection", frame(kWindow, 0, 0, number(0)), kProtocol},
      {"window overflow", frame(kWindow, 0, 0, number(0x7fffffff)), kFlow},
      {"ping of 7 bytes", frame(kPing, 0, 0, "1234567"), kSize},
      {"push promise from a client", frame(kPush, kEndHeaders, 1, number(2)), kProtocol},
      {"continuation of nothing", frame(kContinuation, kEndHeaders, 1, ""), kProtocol},
      {"a frame amid a header block",
       frame(kHeaders, 0, 1, request_fields("GET", "/")) + frame(kPing, 0, 0, "12345678"),
       kProtocol},
      {"a frame that is too large", frame(kData, 0, 1, std::string(16385, 'x')), kSize},
      {"broken compression", frame(kHeaders, kEndHeaders | kEndStream, 1, "\xff\xff\xff\xff\xff"),
       kCompression},
      {"reset of an idle stream", frame(kReset, 0, 7, number(8)), kProtocol},
      {"a flood of pings", pings, kCalm},
      {"a flood of settings", settings, kCalm},
      {"a flood of priorities", priorities, kCalm},
      {"a flood of empty data", empty, kCalm},
      {"rapid reset", rapid, kCalm},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.what);
    Rig rig;
    rig.counts.go.set();
    const auto frames = rig.talk(start() + test.bytes);
    if (test.code == kCalm && (frames.empty() || frames.back().type != kGoAway)) {
      // nghttp2 has ended a flood of acknowledgements by itself, without a word.
      EXPECT_GE(rig.server.metrics().counter("atoll_http2_violations_total", "").value(), 1U);
      continue;
    }
    ASSERT_FALSE(frames.empty());
    EXPECT_EQ(kGoAway, frames.back().type);
    EXPECT_EQ(test.code, frames.back().code());
    EXPECT_LE(rig.counts.most_running, 256);
  }
}

TEST(Http2Frames, MalformedRequestsAreResetOrRefusedAlone) {
  struct Case {
    const char* what;
    std::string fields;
    std::string data;
    bool reset;  // else refused with a status
  };
  const auto plain = request_fields("GET", "/");
  const Case cases[] = {
      {"upper case name", plain + field("X-A", "b"), "", true},
      {"connection header", plain + field("connection", "close"), "", true},
      {"transfer-encoding", plain + field("transfer-encoding", "chunked"), "", true},
      {"missing path", field(":method", "GET") + field(":scheme", "http"), "", true},
      {"double method", field(":method", "GET") + plain, "", true},
      {"unknown pseudo", plain + field(":x", "y"), "", true},
      {"pseudo after fields", field("a", "b") + plain, "", true},
      {"line break in a value", plain + field("a", "b\r\nc"), "", true},
      {"body shorter than its length", plain + field("content-length", "5"), "abc", true},
      {"body longer than its length", plain + field("content-length", "1"), "abc", true},
      {"plain CONNECT", field(":method", "CONNECT") + field(":authority", "x"), "", false},
      {"unknown method", request_fields("BREW", "/"), "", false},
      {"path with a fragment", request_fields("GET", "/#x"), "", false},
      {"Host differs", plain + field("host", "y"), "", false},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.what);
    Rig rig;
    const auto bytes =
        test.data.empty()
            ? frame(kHeaders, kEndHeaders | kEndStream, 1, test.fields)
            : frame(kHeaders, kEndHeaders, 1, test.fields) + frame(kData, kEndStream, 1, test.data);
    const auto frames = rig.talk(start() + bytes + get(3));
    bool reset = false;
    std::map<std::uint32_t, std::string> bodies;
    for (const auto& each : frames) {
      reset = reset || (each.type == kReset && each.stream == 1);
      if (each.type == kData) {
        bodies[each.stream] += each.payload;
      }
    }
    EXPECT_EQ(test.reset, reset);
    EXPECT_EQ(!test.reset, bodies[1].find("bad_request") != std::string::npos) << bodies[1];
    EXPECT_EQ("hello", bodies[3]);
  }
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
      const auto read_for = [](io::Stream& from, std::string& all,
                               std::string& into) -> Task<> {
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
          frame(kSettings, 1, 0, "") + frame(kHeaders, kEndHeaders, 1, connect_fields("websocket")) +
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
}  // namespace atl::http
