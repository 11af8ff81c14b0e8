// Messages in both codecs: what official clients send and expect, byte by byte where it matters.
#include "service/e2b/envd/message_codec.h"

#include <gtest/gtest.h>

#include "service/e2b/envd/binary_codec.h"
#include "service/e2b/envd/envelope.h"

namespace atl::service::e2b::envd {
namespace {

using namespace std::string_literals;

Json start_request() {
  return Json::object(
      {{"process", Json::object({{"cmd", "/bin/bash"},
                                 {"args", Json{Json::Array{"-l", "-c", "echo hi"}}},
                                 {"envs", Json::object({{"A", "1"}, {"B", "two"}})},
                                 {"cwd", "/tmp"}})},
       {"pty", Json::object({{"size", Json::object({{"cols", 80}, {"rows", 24}})}})},
       {"tag", "t"},
       {"stdin", false}});
}

TEST(MessageCodec, RoundTripsInBothCodecs) {
  for (const Codec codec : {Codec::kJson, Codec::kBinary}) {
    const std::string bytes = encode_message(kStartRequest, codec, start_request());
    const auto again = decode_message(kStartRequest, codec, bytes);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, start_request());
  }
}

TEST(MessageCodec, BinaryIsProtobuf) {
  const Json selection = Json::object({{"process", Json::object({{"pid", 300}})}});
  EXPECT_EQ(encode_message(kProcessSelection, Codec::kBinary, selection), "\x0a\x03\x08\xac\x02"s);
  const Json end = Json::object(
      {{"event", Json::object({{"end", Json::object({{"exitCode", -1}, {"exited", false}})}})}});
  // sint32 is zigzag: -1 is 1.
  EXPECT_EQ(encode_message(kProcessEventResponse, Codec::kBinary, end),
            "\x0a\x06\x1a\x04\x08\x01\x10\x00"s);
}

TEST(MessageCodec, JsonIsWhatProto3MapsItTo) {
  const Json output =
      Json::object({{"event", Json::object({{"data", Json::object({{"stdout", "\x00\xff"s}})}})}});
  EXPECT_EQ(encode_message(kProcessEventResponse, Codec::kJson, output),
            R"({"event":{"data":{"stdout":"AP8="}}})");
  const Json entry = Json::object({{"entry", Json::object({{"name", "a"},
                                                           {"type", "FILE_TYPE_FILE"},
                                                           {"size", 5},
                                                           {"mode", 420},
                                                           {"modifiedTime", 1'500'000'000}})}});
  EXPECT_EQ(encode_message(kEntryResponse, Codec::kJson, entry),
            R"({"entry":{"name":"a","type":"FILE_TYPE_FILE","size":"5","mode":420,)"
            R"("modifiedTime":"1970-01-01T00:00:01.500000000Z"}})");
}

TEST(MessageCodec, JsonIsReadGenerously) {
  const auto request =
      decode_message(kWatchRequest, Codec::kJson,
                     R"({"path":"/a","include_entry":true,"recursive":null,"unknown":{"x":[1]}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(*request, Json::object({{"path", "/a"}, {"includeEntry", true}}));
  const auto signal =
      decode_message(kSendSignalRequest, Codec::kJson, R"({"process":{"pid":"7"},"signal":9})");
  ASSERT_TRUE(signal);
  EXPECT_EQ(*signal,
            Json::object({{"process", Json::object({{"pid", 7}})}, {"signal", "SIGNAL_SIGKILL"}}));
  for (const std::string_view text : {"_-8", "/+8=", "_-8="}) {
    const auto input = decode_message(kSendInputRequest, Codec::kJson,
                                      "{\"input\":{\"stdin\":\"" + std::string{text} + "\"}}");
    ASSERT_TRUE(input) << text;
    EXPECT_EQ(*input->find("input")->find("stdin"), Json{"\xff\xef"}) << text;
  }
  EXPECT_TRUE(decode_message(kEmpty, Codec::kJson, ""));
}

TEST(MessageCodec, WhatIsMalformedIsRefused) {
  for (const std::string_view text :
       {"[]", "{", R"({"path":1})", R"({"recursive":"yes"})", R"({"path":["a"]})"}) {
    EXPECT_FALSE(decode_message(kWatchRequest, Codec::kJson, text)) << text;
  }
  for (const std::string_view text :
       {R"({"process":{"pid":-1}})", R"({"process":{"pid":4294967296}})",
        R"({"process":{"pid":1.5}})", R"({"input":{"stdin":"a"}})", R"({"input":{"stdin":"*"}})"}) {
    EXPECT_FALSE(decode_message(kSendInputRequest, Codec::kJson, text)) << text;
  }
  for (const std::string& bytes :
       {"\x0a"s, "\x0a\x05x"s, "\x08\x01"s, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,
        "\x0b"s, "\x0a\x01\xff"s}) {
    EXPECT_FALSE(decode_message(kPathRequest, Codec::kBinary, bytes));
  }
  EXPECT_TRUE(decode_message(kPathRequest, Codec::kBinary, "\x7a\x01x\x0a\x01/"s));
}

std::string process_with(const std::vector<std::pair<std::string, std::string>>& envs) {
  std::string config;
  for (const auto& [name, value] : envs) {
    config += binary_block(3, binary_block(1, name) + binary_block(2, value));
  }
  return binary_block(1, config);
}

TEST(MessageCodec, OfPairsWithOneNameTheLastCounts) {
  const auto request =
      decode_message(kStartRequest, Codec::kBinary,
                     process_with({{"B", "1"}, {"A", "2"}, {"B", "3"}, {"", "4"}, {"B", "5"}}));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(*request->find("process")->find("envs"),
            Json::object({{"", "4"}, {"A", "2"}, {"B", "5"}}));
}

// As many as are allowed: five billion comparisons, if each were looked for among all before it.
TEST(MessageCodec, AFloodOfPairsIsReadOrRefused) {
  std::vector<std::pair<std::string, std::string>> envs;
  for (int i = 0; i < 100'000; ++i) {
    envs.emplace_back(std::to_string(200'000 - i), "");
  }
  const auto request = decode_message(kStartRequest, Codec::kBinary, process_with(envs));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->find("process")->find("envs")->as_object()->size(), envs.size());
  envs.emplace_back("one more", "");
  EXPECT_FALSE(decode_message(kStartRequest, Codec::kBinary, process_with(envs)));
}

TEST(Envelope, IsReadInAnyPieces) {
  const std::string stream =
      encode_envelope(0, "one") + encode_envelope(0, "") + encode_envelope(kEndFlag, "{}");
  EXPECT_EQ(stream.substr(0, 8), "\0\0\0\0\3one"s);
  EnvelopeDecoder decoder;
  std::vector<std::string> seen;
  for (const char c : stream) {
    decoder.feed({&c, 1});
    for (;;) {
      const auto envelope = decoder.next();
      ASSERT_TRUE(envelope);
      if (!*envelope) {
        break;
      }
      seen.push_back((*envelope)->message);
    }
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"one", "", "{}"}));
  EXPECT_FALSE(decoder.partial());
}

TEST(Envelope, TooLargeAndCompressedAreRefused) {
  EnvelopeDecoder large;
  large.feed("\x00\x7f\xff\xff\xff"s);
  EXPECT_EQ(large.next().error().code, Code::kResourceExhausted);
  EnvelopeDecoder compressed;
  compressed.feed(encode_envelope(kCompressedFlag, "x"));
  EXPECT_EQ(compressed.next().error().code, Code::kUnimplemented);
}

}  // namespace
}  // namespace atl::service::e2b::envd
