// Strict reading of requests: JSON bodies (see base/json_fields.h) and queries.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fields.h"
#include "control/sandboxes.h"
#include "http/message.h"

namespace atl::service::native {

inline constexpr std::size_t kMaxJsonBodyBytes = 1U << 20;

// The body as a JSON object; kInvalidArgument when it is none.
Task<Json> read_json(http::Body& body);
// The same for a body that may be left out: an empty object.
Task<Json> read_optional_json(http::Body& body);

using atl::Fields;

// Query parameters, as strict: kInvalidArgument names the parameter.
Result<std::optional<std::int64_t>> query_integer(std::string_view query, std::string_view name,
                                                  std::int64_t least, std::int64_t most);
// RFC 3339, with any offset.
Result<std::optional<UnixMillis>> query_time(std::string_view query, std::string_view name);
// Every parameter, decoded, in order.
Result<std::vector<std::pair<std::string, std::string>>> query_pairs(std::string_view query);
// A parameter that is not in the list is refused by name: what it was meant to do would not happen.
Result<> allow_query(std::string_view query, std::initializer_list<std::string_view> allowed);
Result<bool> query_boolean(std::string_view query, std::string_view name);

}  // namespace atl::service::native
