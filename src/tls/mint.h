// Making certificates: a local authority and leaves it signs. Used by `atoll cert dev`, and by the
// interception of a sandbox's traffic. Keys are P-256.
#pragma once

#include <string>
#include <vector>

#include "tls/context.h"

namespace atl::tls {

struct AuthorityOptions {
  std::string common_name;
  int valid_days = 3650;
};
Result<Identity> mint_authority(const AuthorityOptions& options);

struct LeafOptions {
  // DNS names (also wildcards) and IP addresses; the first one is the common name.
  std::vector<std::string> names;
  int valid_days = 397;
  // No common name, as the web wants it: only the alternative names count.
  bool without_subject = false;
};
// The certificate is followed by the authority's, so that it can be served as it is.
Result<Identity> mint_leaf(const Identity& authority, const LeafOptions& options);

}  // namespace atl::tls
