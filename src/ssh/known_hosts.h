// Whether a server is the one we know: lines as in a known_hosts file.
//
// Sans-IO. Understands plain names, wildcards, negation, [host]:port, hashed names and @revoked. A
// @cert-authority line is refused when the lines are read: we verify no host certificates, and a
// line that is silently ignored would look like trust.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ssh/public_key.h"

namespace atl::ssh {

inline constexpr std::size_t kMaxKnownHosts = 1024;

class KnownHosts {
 public:
  static Result<KnownHosts> parse(const std::vector<std::string>& lines);

  // kPermissionDenied: not known, known with another key, or revoked. `host` is a name or an
  // address.
  Result<> verify(std::string_view host, std::uint16_t port, std::string_view key_blob) const;
  // Types of keys known for it, in order; a server that has several shows one of these when asked.
  std::vector<std::string> key_types(std::string_view host, std::uint16_t port) const;

 private:
  struct Line {
    std::string hosts;  // as it stands in the file
    bool revoked = false;
    PublicKey key;
  };
  static bool matches(const Line& line, std::string_view name);
  std::vector<Line> lines_;
};

}  // namespace atl::ssh
