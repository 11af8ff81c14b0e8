// Messages as JSON, by their tables. See message_codec.h.
#pragma once

#include <string>

#include "base/json.h"
#include "service/e2b/envd/schema.h"

namespace atl::service::e2b::envd {

Result<Json> from_proto_json(const Message& message, const Json& value);
void append_proto_json(std::string& out, const Message& message, const Json& value);

}  // namespace atl::service::e2b::envd
