#include "http/websocket_codec.h"

#include <gtest/gtest.h>

#include <random>

namespace atl::http {
namespace {

using Kind = WebSocketMessage::Kind;

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) {
    out += static_cast<char>(value);
  }
  return out;
}

TEST(WebSocketCodec, RoundTripsEverySizeClassBothWays) {
  for (const auto role : {WebSocketRole::kClient, WebSocketRole::kServer}) {
    const auto other =
        role == WebSocketRole::kClient ? WebSocketRole::kServer : WebSocketRole::kClient;
    for (const std::size_t size : {0, 1, 125, 126, 127, 65535, 65536, 200000}) {
      WebSocketDecoder decoder{other, 1 << 20};
      const std::string payload(size, 'p');
      const std::string frame = encode_websocket(role, Kind::kBinary, payload);
      for (std::size_t at = 0; at < frame.size(); at += 1000) {
        decoder.feed(std::string_view{frame}.substr(at, 1000));
      }
      auto message = decoder.next();
      ASSERT_TRUE(message && *message) << size;
      EXPECT_EQ(payload, (*message)->payload);
      auto none = decoder.next();
      ASSERT_TRUE(none);
      EXPECT_FALSE(*none);
    }
  }
}

TEST(WebSocketCodec, FragmentsJoinAndControlFramesPassBetweenThem) {
  WebSocketDecoder decoder{WebSocketRole::kClient, 100};
  decoder.feed(bytes({0x01, 2, 'a', 'b', 0x89, 1, 'p', 0x80, 1, 'c'}));
  auto ping = decoder.next();
  ASSERT_TRUE(ping && *ping);
  EXPECT_EQ(Kind::kPing, (*ping)->kind);
  auto text = decoder.next();
  ASSERT_TRUE(text && *text);
  EXPECT_EQ(Kind::kText, (*text)->kind);
  EXPECT_EQ("abc", (*text)->payload);
}

struct HostileCase {
  const char* name;
  std::string frame;  // as a client would receive it (unmasked)
  std::uint16_t close_code;
};

TEST(WebSocketCodec, HostileFramesAreRefused) {
  const HostileCase cases[] = {
      {"reserved bit", bytes({0xC1, 0}), 1002},
      {"unknown data opcode", bytes({0x83, 0}), 1002},
      {"unknown control opcode", bytes({0x8B, 0}), 1002},
      {"fragmented ping", bytes({0x09, 0}), 1002},
      {"long ping", bytes({0x89, 126, 0, 126}), 1002},
      {"continuation of nothing", bytes({0x80, 0}), 1002},
      {"new message inside a message", bytes({0x01, 0, 0x81, 0}), 1002},
      {"masked frame to a client", bytes({0x81, 0x80, 0, 0, 0, 0}), 1002},
      {"length not minimal, 16 bit", bytes({0x82, 126, 0, 5}), 1002},
      {"length not minimal, 64 bit", bytes({0x82, 127, 0, 0, 0, 0, 0, 0, 0, 200}), 1002},
      {"huge length", bytes({0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), 1009},
      {"too big", bytes({0x82, 101}), 1009},
      {"fragments that grow too big", bytes({0x02, 1, 'x', 0x00, 100}), 1009},
      {"bad UTF-8", bytes({0x81, 2, 0xC0, 0x80}), 1007},
      {"close with one byte", bytes({0x88, 1, 3}), 1002},
      {"close with a reserved code", bytes({0x88, 2, 0x03, 0xED}), 1002},
      {"close with a bad reason", bytes({0x88, 3, 0x03, 0xE8, 0xff}), 1007},
  };
  for (const auto& test : cases) {
    WebSocketDecoder decoder{WebSocketRole::kClient, 100};
    decoder.feed(test.frame);
    auto result = decoder.next();
    while (result && *result) {
      result = decoder.next();
    }
    EXPECT_FALSE(result) << test.name;
    EXPECT_EQ(test.close_code, decoder.close_code()) << test.name;
  }
}

TEST(WebSocketCodec, UnmaskedFramesToAServerAreRefused) {
  WebSocketDecoder decoder{WebSocketRole::kServer, 100};
  decoder.feed(bytes({0x81, 1, 'x'}));
  EXPECT_FALSE(decoder.next());
}

TEST(WebSocketCodec, RandomBytesNeverCrashAndNeverExceedTheLimit) {
  std::mt19937 random{20261115};
  for (int round = 0; round < 20000; ++round) {
    WebSocketDecoder decoder{round % 2 == 0 ? WebSocketRole::kServer : WebSocketRole::kClient, 64};
    std::string noise(random() % 40, '\0');
    for (char& c : noise) {
      c = static_cast<char>(random() % 3 == 0 ? random() : 0x80 | (random() % 16));
    }
    decoder.feed(noise);
    for (auto result = decoder.next(); result && *result; result = decoder.next()) {
      EXPECT_LE((*result)->payload.size(), 125U);
    }
  }
}

TEST(WebSocketCodec, AcceptKeyOfTheRfc) {
  EXPECT_EQ("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="));
  EXPECT_FALSE(websocket_accept("short"));
  EXPECT_FALSE(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=!"));
}

TEST(WebSocketCodec, CloseCarriesCodeAndReason) {
  WebSocketDecoder decoder{WebSocketRole::kClient, 100};
  decoder.feed(encode_websocket_close(WebSocketRole::kServer, 1000, "done"));
  auto message = decoder.next();
  ASSERT_TRUE(message && *message);
  EXPECT_EQ(Kind::kClose, (*message)->kind);
  EXPECT_EQ(1000, (*message)->close_code);
  EXPECT_EQ("done", (*message)->payload);
}

}  // namespace
}  // namespace atl::http
