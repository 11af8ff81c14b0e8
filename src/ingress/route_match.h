// Which route of a sandbox's services a request is for, and whether its sender may use it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "control/service.h"
#include "http/message.h"

namespace atl::ingress {

struct RouteMatch {
  // 200: matched; 400: a path that can be read in two ways where routes differ by path; 404; 405.
  int status = 404;
  const control::Service* service = nullptr;  // of 200; borrowed
  const control::ServiceRoute* route = nullptr;
  std::string allow;  // of 405
};

// The longest prefix on a segment boundary among the public services of the port decides.
RouteMatch match_route(const control::SandboxServices& services, std::uint16_t port,
                       std::string_view path, std::string_view method);

// The same for a request; a preflight is matched as what it asks about, if that route has rules for
// other origins: elsewhere it is a request like any other.
RouteMatch match_request(const control::SandboxServices& services, std::uint16_t port,
                         std::string_view path, const http::Request& request);

// The path for the service: the matched prefix replaced, when the route says so.
std::string rewrite_path(const control::ServiceRoute& route, std::string_view path);

// Compares digests in constant time. Several fields of the name are refused: which one counts
// would be a matter of taste.
bool is_authorized(const control::RouteAuth& auth, const http::Headers& headers);

// A preflight, or an ordinary request from another origin.
struct CorsAnswer {
  bool preflight = false;  // to be answered by us
  bool allowed = false;
  http::Headers headers;  // of the answer
};
CorsAnswer judge_cors(const control::RouteCors& cors, const http::Request& request);
bool is_preflight(const http::Request& request);

}  // namespace atl::ingress
