// Where Debian comes from on this host: the Debian entries of its own apt sources, nothing else.
//
// A host's sources hold mirrors we want (fast, allowed by its firewall) next to third-party
// repositories we do not. An entry counts as Debian's when it serves one of the suite's own names
// ("bookworm", "-updates", "-security"), has component main, is reached over http(s), and is not
// signed by somebody else's key. A wrong guess fails closed: everything is verified against
// Debian's archive keyring. Reading is pure text in, values out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::image {

struct AptSource {
  std::string uri;
  std::vector<std::string> suites;

  bool operator==(const AptSource&) const = default;
};

// "deb [options] uri suite component..." lines.
std::vector<AptSource> parse_one_line_sources(std::string_view text, std::string_view suite);
// deb822 stanzas.
std::vector<AptSource> parse_deb822_sources(std::string_view text, std::string_view suite);
// All of /etc/apt, in apt's order; Debian's own mirror when the host has no entry for `suite`.
std::vector<AptSource> host_debian_sources(std::string_view suite);

// As a deb822 file, verified by Debian's keyring.
std::string format_sources(const std::vector<AptSource>& sources);
// The same without user names and passwords in addresses: what may go into an image.
std::vector<AptSource> without_credentials(std::vector<AptSource> sources);

}  // namespace atl::image
