// criu's messages: read back as written, and refused when they are not messages.
#include "runtime/namespaces/protobuf_wire.h"

#include <gtest/gtest.h>

namespace atl::runtime::namespaces {
namespace {

TEST(ProtobufWireTest, FieldsComeBackAsTheyWere) {
  ProtobufWriter writer;
  writer.number(1, 300).text(2, "text").number(16, ~std::uint64_t{0});
  const auto fields = parse_protobuf(writer.bytes());
  ASSERT_TRUE(fields) << fields.error().message;
  ASSERT_EQ(fields->size(), 3U);
  EXPECT_EQ((*fields)[0].value, 300U);
  EXPECT_EQ((*fields)[1].bytes, "text");
  EXPECT_EQ((*fields)[2].number, 16U);
  EXPECT_EQ((*fields)[2].value, ~std::uint64_t{0});
  EXPECT_EQ(format_protobuf(*fields), writer.bytes());
}

TEST(ProtobufWireTest, WhatIsNoMessageIsRefused) {
  using namespace std::string_literals;
  EXPECT_FALSE(parse_protobuf("\x08")) << "no value";
  EXPECT_FALSE(parse_protobuf("\x12\x05six")) << "longer than the message";
  EXPECT_FALSE(parse_protobuf("\x0b")) << "a group";
  EXPECT_FALSE(parse_protobuf("\x09\x01\x02")) << "half a number";
  EXPECT_FALSE(parse_protobuf("\x08"s + std::string(11, '\xff'))) << "a number without an end";
  EXPECT_TRUE(parse_protobuf("")->empty());
}

}  // namespace
}  // namespace atl::runtime::namespaces
