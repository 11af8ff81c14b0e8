// Where the outside finds what is inside: names and addresses of services.
//
//   with a domain     https://{sandbox}--p{port}.{domain}   also {port}-{sandbox}.{domain}
//   without           https://{server}/s/{sandbox}/{port}   for hosts that have no wildcard DNS
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::control {

struct PublicNames {
  std::string domain;       // lower case; empty: none
  std::string scheme;       // "http", "https"
  std::string server;       // "127.0.0.1:7070", "api.example.com"; of this server itself
  std::string port_suffix;  // ":7070"; empty: the scheme's own

  // The root of a port of a sandbox, without a slash at its end.
  std::string origin(std::string_view sandbox_id, std::uint16_t port) const;
  // Below a host of its own, cookies and scripts of a service meet nobody else's.
  bool has_own_hosts() const { return !domain.empty(); }
};

// `public_url` is how clients see this server when something stands in front of it; empty: what it
// listens on.
Result<PublicNames> make_public_names(std::string_view domain, std::string_view public_url,
                                      std::string_view listen_host, std::uint16_t listen_port,
                                      bool tls);

// What stands before the domain, in lower case: "3000-iabc". Empty: another name, or the server's
// own, which may be below the domain too.
std::string find_label(const PublicNames& names, std::string_view host);

// Which sandbox and port a host or a path is about.
struct PublicTarget {
  std::string sandbox_id;
  std::uint16_t port = 0;
  std::string prefix;  // of the path, to be taken off: "/s/rs-x/80"; empty: none
};
// Nothing: the request is for the server itself. A host below the domain that names no service is
// still not the server: it is answered with a target without an id, which nobody has.
std::optional<PublicTarget> find_target(const PublicNames& names, std::string_view host,
                                        std::string_view path);

}  // namespace atl::control
