// Messages as bytes and back: JSON as proto3 maps it, and the binary wire format of protobuf.
//
// Sans-IO. Decoding takes hostile bytes: unknown fields are skipped, as both formats want it, but
// what is known must be well formed. In JSON names may also be in snake_case, 64-bit integers
// strings or numbers, enums names or numbers, bytes in either alphabet of base64.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "service/e2b/envd/schema.h"

namespace atl::service::e2b::envd {

enum class Codec : std::uint8_t { kJson, kBinary };

// The canonical form (schema.h). kInvalidArgument when malformed.
Result<Json> decode_message(const Message& message, Codec codec, std::string_view bytes);
// REQUIRES: the canonical form; members that the message does not have are left out.
std::string encode_message(const Message& message, Codec codec, const Json& value);

// Members of a canonical message; what is absent is empty, zero or false.
std::string text_of(const Json& message, std::string_view name);
Json object_of(const Json& message, std::string_view name);
std::uint32_t number_of(const Json& message, std::string_view name);
bool flag_of(const Json& message, std::string_view name);

}  // namespace atl::service::e2b::envd
