#include "service/e2b/envd/message_codec.h"

#include "service/e2b/envd/binary_codec.h"
#include "service/e2b/envd/json_codec.h"

namespace atl::service::e2b::envd {

Result<Json> decode_message(const Message& message, Codec codec, std::string_view bytes) {
  if (codec == Codec::kBinary) {
    return decode_binary(message, bytes);
  }
  if (bytes.empty()) {
    return Json::object();
  }
  TRY(const auto value, Json::parse(bytes));
  return from_proto_json(message, value);
}

std::string encode_message(const Message& message, Codec codec, const Json& value) {
  if (codec == Codec::kBinary) {
    return encode_binary(message, value);
  }
  std::string out;
  append_proto_json(out, message, value);
  return out;
}

std::string text_of(const Json& message, std::string_view name) {
  const Json* member = message.find(name);
  return member != nullptr && member->as_string() != nullptr ? *member->as_string() : std::string{};
}

Json object_of(const Json& message, std::string_view name) {
  const Json* member = message.find(name);
  return member != nullptr ? *member : Json::object();
}

std::uint32_t number_of(const Json& message, std::string_view name) {
  const Json* member = message.find(name);
  return member != nullptr && member->as_integer() != nullptr
             ? static_cast<std::uint32_t>(*member->as_integer())
             : 0;
}

bool flag_of(const Json& message, std::string_view name) {
  const Json* member = message.find(name);
  return member != nullptr && member->as_bool() != nullptr && *member->as_bool();
}

}  // namespace atl::service::e2b::envd
