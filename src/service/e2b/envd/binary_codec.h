// Messages in the wire format of protobuf, by their tables. See message_codec.h.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "service/e2b/envd/schema.h"

namespace atl::service::e2b::envd {

Result<Json> decode_binary(const Message& message, std::string_view bytes);
std::string encode_binary(const Message& message, const Json& value);
// One field of text, bytes or a message that is encoded already.
std::string binary_block(std::uint32_t number, std::string_view bytes);

}  // namespace atl::service::e2b::envd
