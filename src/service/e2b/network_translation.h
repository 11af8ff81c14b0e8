// E2B's `network` and `allow_internet_access` as our network policy.
//
//   allowOut      allow rules, which come first; denyOut a deny rule after them
//   all denied    the mode block-all, so that IPv6 and names that nobody allowed are closed as well
//   rules         a credential rule for each domain, over TLS that the proxy opens
//   egressProxy   the upstream SOCKS5 proxy
//
// Header values and the proxy's password are sealed before they go anywhere, and
// ${e2b.secrets.NAME} is looked up by the proxy at every request: neither enters the sandbox or an
// answer. Pure; what seals is given.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "control/network_document.h"
#include "control/value_template.h"

namespace atl::service::e2b {

inline constexpr std::size_t kMaxRuleDomains = 10;
inline constexpr std::size_t kMaxRuleHeaders = 20;
inline constexpr std::size_t kMaxRuleHeaderNameBytes = 64;
inline constexpr std::size_t kMaxRuleHeaderValueBytes = 2048;
inline constexpr std::size_t kMaxHttpsPorts = 64;
inline constexpr std::size_t kMaxMaskBytes = 255;

// CredentialSources::seal_own for the caller's team.
using ValueSealer = std::function<Result<std::string>(const control::SecretValues&)>;

struct NetworkUpdate {
  control::NetworkRequestPtr egress;  // null: nothing was said, so the template's counts
  std::optional<bool> internet;       // what was said of allow_internet_access
  // What was said of the rest, as the client may read it again: without the values of headers and
  // the proxy's password.
  Json told = Json::object();
};
struct NetworkOptions : NetworkUpdate {
  bool allow_public_traffic = true;
  std::string mask_request_host;  // with ${PORT}; empty: none
  std::vector<std::uint16_t> https_ports;
};
// `body` is that of a create: its `network` and `allow_internet_access`.
Result<NetworkOptions> read_network_options(const Json& body, const ValueSealer& seal);

// `body` is that of PUT /sandboxes/{id}/network: what it does not say is cleared.
Result<NetworkUpdate> read_network_update(const Json& body, const ValueSealer& seal);

}  // namespace atl::service::e2b
