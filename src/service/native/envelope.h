// The envelope of the native API: {"success":true,"data":…} and
// {"success":false,"error":{"code","message","details"?}}.
//
// One table (envelope.cpp) says which status and which code an Error becomes. Nothing else may.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "http/message.h"

namespace atl::service::native {

struct ApiFailure {
  int status = 500;
  std::string_view code;
};
ApiFailure classify(const Error& error);

http::Response data_response(int status, Json data);
// A failure of ours (5xx without a known reason) is told in full only to those who run the place.
http::Response error_response(const Error& error, bool tell_all, std::string_view request_id);

std::string rfc3339(std::int64_t unix_ms);
Json rfc3339_or_null(std::optional<std::int64_t> unix_ms);

}  // namespace atl::service::native
