// HTTP/2 clients that break the rules, and clients that try to exhaust the server.
#include <gtest/gtest.h>

#include <map>

#include "http/h2_frames.h"

namespace atl::http::frames {
namespace {

using namespace std::string_literals;

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
    const auto bytes = test.data.empty() ? frame(kHeaders, kEndHeaders | kEndStream, 1, test.fields)
                                         : frame(kHeaders, kEndHeaders, 1, test.fields) +
                                               frame(kData, kEndStream, 1, test.data);
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

}  // namespace
}  // namespace atl::http::frames
