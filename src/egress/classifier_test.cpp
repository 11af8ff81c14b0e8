#include "egress/classifier.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::egress {
namespace {

using namespace std::string_literals;

std::string u16(std::size_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string extension(std::size_t type, const std::string& body) {
  return u16(type) + u16(body.size()) + body;
}

std::string server_name(const std::string& name) {
  const auto entry = "\0"s + u16(name.size()) + name;
  return extension(0, u16(entry.size()) + entry);
}

std::string message(const std::string& extensions) {
  const auto body = "\3\3"s + std::string(32, 'r') + "\0"s + u16(2) + "\x13\x01" + "\1\0"s +
                    u16(extensions.size()) + extensions;
  return "\1\0"s + u16(body.size()) + body;
}

std::string record(const std::string& bytes) {
  return "\x16\3\1"s + u16(bytes.size()) + bytes;
}

std::string hello(const std::string& name) {
  return record(message(server_name(name) + extension(16, u16(3) + "\2h2"s)));
}

TEST(ClientHello, NameAndProtocols) {
  const auto read = read_client_hello(hello("api.example.com"));
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->server_name, "api.example.com");
  EXPECT_EQ((*read)->alpn, std::vector<std::string>{"h2"});
  EXPECT_FALSE((*read)->encrypted_hello);
}

TEST(ClientHello, InAnyPieces) {
  const auto whole = message(server_name("a.example"));
  std::string records;
  for (const char c : whole) {
    records += record(std::string{c});
  }
  for (const auto& bytes : {hello("a.example"), records}) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto part = read_client_hello(std::string_view{bytes}.substr(0, size));
      ASSERT_TRUE(part) << part.error().message;
      EXPECT_FALSE(*part) << size;
    }
    EXPECT_EQ(read_client_hello(bytes).value().value().server_name, "a.example");
  }
}

TEST(ClientHello, MarksWhatHidesTheName) {
  const auto read = read_client_hello(record(
      message(server_name("outer.example") + extension(0xfe0d, "\0x"s) + extension(42, ""))));
  ASSERT_TRUE(read && *read);
  EXPECT_TRUE((*read)->encrypted_hello);
  EXPECT_TRUE((*read)->early_data);
}

TEST(ClientHello, WhatTwoReadersCouldTakeDifferentlyIsRefused) {
  const auto two_entries = "\0"s + u16(1) + "a" + "\0"s + u16(1) + "b";
  for (const auto& bytes :
       {record(message(server_name("a.example") + server_name("b.example"))),
        record(message(extension(0, u16(two_entries.size()) + two_entries))),
        record(message(extension(0, ""))), record(message(extension(16, u16(1) + "\0"s))),
        record(message("\0\0\0"s)), record("\2\0\0\4aaaa"s), "\x16\2\1\0\1a"s,
        "\x16\3\1\xff\xff"s + std::string(100, 'a'), record("\1\xff\xff\xff"s + "a"s),
        record(message(server_name("a") + "x"s))}) {
    const auto read = read_client_hello(bytes);
    EXPECT_FALSE(read) << bytes.size();
  }
}

AppProtocol protocol_of(const std::string& bytes) {
  const auto classified = classify(bytes);
  EXPECT_TRUE(classified && *classified) << bytes;
  return classified && *classified ? (*classified)->protocol : AppProtocol::kUnknown;
}

TEST(Classifier, KnowsEachProtocolByItsFirstBytes) {
  EXPECT_EQ(protocol_of(hello("a.example")), AppProtocol::kTls);
  EXPECT_EQ(protocol_of("GET / HTTP/1.1\r\n"), AppProtocol::kHttp);
  EXPECT_EQ(protocol_of("OPTIONS * HTTP/1.1\r\n"), AppProtocol::kHttp);
  EXPECT_EQ(protocol_of("SSH-2.0-OpenSSH_9.2\r\n"), AppProtocol::kSsh);
  EXPECT_EQ(protocol_of("\5\1\0"s), AppProtocol::kSocks5);
  EXPECT_EQ(protocol_of("\x10\x1e\0\4MQTT\5"s), AppProtocol::kMqtt);
  EXPECT_EQ(protocol_of("*2\r\n$4\r\nAUTH\r\n"), AppProtocol::kRedis);
  EXPECT_EQ(protocol_of("AMQP\0\0\x09\x01"s), AppProtocol::kAmqp);
  EXPECT_EQ(protocol_of("\0\0\0\x08\x04\xd2\x16\x2f"s), AppProtocol::kPostgres);
  EXPECT_EQ(protocol_of("\0\0\0\x20\0\3\0\0user\0me\0"s), AppProtocol::kPostgres);
  EXPECT_EQ(protocol_of("\x40\0\0\0\1\0\0\0\0\0\0\0\xdd\7\0\0"s), AppProtocol::kMongodb);
  EXPECT_EQ(protocol_of("\0\x1d\x12\x34\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"s),
            AppProtocol::kDns);
  EXPECT_EQ(protocol_of("hello there, server"), AppProtocol::kUnknown);
  EXPECT_EQ(protocol_of("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5\xf4\xf3\xf2\xf1\xf0"s),
            AppProtocol::kUnknown);
}

TEST(Classifier, HttpTwoWithPriorKnowledge) {
  const auto classified = classify("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  ASSERT_TRUE(classified && *classified);
  EXPECT_EQ((*classified)->protocol, AppProtocol::kHttp);
  EXPECT_TRUE((*classified)->http2);
}

TEST(Classifier, SplittingTheFirstBytesHidesNothing) {
  for (const auto& bytes :
       {hello("a.example"), "GET / HTTP/1.1\r\n"s, "SSH-2.0-x\r\n"s, "*2\r\n$4\r\nAUTH\r\n"s,
        "\x10\x1e\0\4MQTT\5"s, "AMQP\0\0\x09\x01"s, "\0\0\0\x08\x04\xd2\x16\x2f"s,
        "\x40\0\0\0\1\0\0\0\0\0\0\0\xdd\7\0\0"s, "\5\1\0"s}) {
    const auto whole = protocol_of(bytes);
    for (std::size_t size = 1; size < bytes.size(); ++size) {
      const auto part = classify(std::string_view{bytes}.substr(0, size));
      ASSERT_TRUE(part);
      EXPECT_TRUE(!*part || (*part)->protocol == whole)
          << app_protocol_name(whole) << " after " << size << " bytes";
    }
  }
}

TEST(Classifier, ABrokenHelloIsRefused) {
  EXPECT_FALSE(classify("\x16\3\1\0\0"s));
}

}  // namespace
}  // namespace atl::egress
