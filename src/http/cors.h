// Cross-origin requests of browsers, as a wrapper around a handler.
//
// Atoll's API is opened by a key in a header, never by a cookie, so a foreign page gains nothing
// that it does not already hold: any origin may be let in, and credentials are never allowed.
#pragma once

#include <string>
#include <vector>

#include "http/server.h"

namespace atl::http {

struct CorsPolicy {
  std::vector<std::string> origins;  // "https://app.example"; empty: any
};

// "https://app.example,http://localhost:3000", or "*" for any, or "none" (nullopt: no CORS at all).
Result<std::optional<CorsPolicy>> parse_cors_policy(std::string_view text);

// What a response to a request from `origin` carries; empty when the origin is not let in.
Headers cors_headers(const CorsPolicy& policy, std::string_view origin);

// Answers preflights and adds the headers to every answer of `inner`.
Handler with_cors(CorsPolicy policy, Handler inner);

}  // namespace atl::http
