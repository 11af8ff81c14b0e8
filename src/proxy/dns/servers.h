// The resolvers that questions go to: those the operator named, or the host's own, whose file is
// read again when it has changed.
#pragma once

#include <string>
#include <vector>

#include "base/loop.h"
#include "proxy/endpoint.h"

namespace atl::proxy::dns {

inline constexpr std::size_t kMaxServers = 3;
inline constexpr std::uint16_t kDnsPort = 53;

// The nameserver lines of a resolv.conf; a zone ("%eth0") is not understood and left out.
std::vector<Endpoint> read_resolv_conf(std::string_view text);

class Servers {
 public:
  explicit Servers(std::vector<Endpoint> given, std::string path = "/etc/resolv.conf")
      : given_(std::move(given)), path_(std::move(path)) {}
  // May be empty: then nothing can be resolved.
  const std::vector<Endpoint>& list(Instant now);

 private:
  std::vector<Endpoint> given_;
  std::string path_;
  std::vector<Endpoint> found_;
  Instant read_again_at_{};
  bool read_ = false;
};

}  // namespace atl::proxy::dns
