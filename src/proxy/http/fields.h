// Header fields that belong to one connection and those that end at the proxy.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace atl::proxy::http {

// Removes Host, framing, and everything that is said to the next hop only: the well-known fields
// and whatever Connection names.
void strip_hop_fields(atl::http::Headers& headers);
// "X_Api-Key" and "x-api_key" are one field to many servers: lower case, '_' as '-'.
std::string folded_name(std::string_view name);
// Every spelling of it.
void remove_folded(atl::http::Headers& headers, std::string_view name);

}  // namespace atl::proxy::http
