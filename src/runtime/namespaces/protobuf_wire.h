// The wire form of protocol buffers, as much of it as criu's messages need.
//
// A message is a sequence of fields (number, wire type, value); nothing here knows what they mean.
// Readers take bytes of any origin: whatever is not a message is an error, and no field reaches
// beyond its message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::runtime::namespaces {

struct ProtobufField {
  enum class Type : std::uint8_t { kNumber = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  std::uint32_t number = 0;
  Type type = Type::kNumber;
  std::uint64_t value = 0;  // kNumber
  std::string bytes;        // the others
};

Result<std::vector<ProtobufField>> parse_protobuf(std::string_view bytes);
std::string format_protobuf(const std::vector<ProtobufField>& fields);

// Makes a message field by field.
class ProtobufWriter {
 public:
  ProtobufWriter& number(std::uint32_t field, std::uint64_t value);
  ProtobufWriter& text(std::uint32_t field, std::string_view value);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace atl::runtime::namespaces
