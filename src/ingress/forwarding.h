// Heads on their way through: what a service gets to see of a request, and a client of an answer.
// Always written anew, field by field: nothing that steers a connection or pretends to come from us
// passes. Pure.
#pragma once

#include <string>
#include <string_view>

#include "control/public_names.h"
#include "control/service.h"
#include "http/message.h"

namespace atl::ingress {

inline constexpr std::string_view kPreviewCookie = "__Host-sandbox0-preview";
// Where names have no hosts of their own, the cookie belongs to a path.
inline constexpr std::string_view kPreviewPathCookie = "__Secure-sandbox0-preview";
inline constexpr std::string_view kPlainPreviewCookie =
    "sandbox0-preview";  // of a server without TLS
inline constexpr std::string_view kPreviewLinkPath = "/.sandbox0/preview/bootstrap";
inline constexpr std::string_view kPreviewHeader = "x-sandbox0-preview";

struct RequestView {
  std::string path;  // for the service, with its query
  std::string peer;  // "203.0.113.7:4711"
  std::string_view scheme;
  std::string prefix;                        // taken off the path; empty: none
  const control::RouteAuth* auth = nullptr;  // its secret stays with us
};
// The fields for the service, with Host; without those that say how a body is framed.
http::Headers request_fields(const http::Request& request, const RequestView& view);

struct ResponseView {
  bool framable = false;  // a preview: may be shown inside another page
  std::string prefix;     // to be put back before paths
  bool own_cors = false;  // the route has rules: those of the service do not count
};
// The fields for the client, without those that say how a body is framed.
http::Headers response_fields(const http::Headers& headers, const ResponseView& view);

// The values of a request's cookies with this name; all of them, as several may be there.
std::vector<std::string> cookie_values(const http::Headers& headers, std::string_view name);

// A whole head. kInvalidArgument when a field would not be one line.
Result<std::string> request_head(std::string_view method, std::string_view path,
                                 const http::Headers& fields, std::string_view framing_lines);

}  // namespace atl::ingress
