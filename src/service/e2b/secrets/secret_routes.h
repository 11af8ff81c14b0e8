// Secrets in E2B's words: credential sources with one value, which is written and never read. Rules
// of networks use it as ${e2b.secrets.NAME} (service/e2b/network_translation.h).
#pragma once

#include <optional>

#include "control/credential_sources.h"
#include "service/e2b/e2b_routes.h"

namespace atl::service::e2b {

// What the value is called in its source.
inline constexpr std::string_view kSecretValue = "value";

class SecretRoutes {
 public:
  // The sources outlive this.
  explicit SecretRoutes(control::CredentialSources& sources) : sources_(sources) {}
  void add_to(E2bRoutes& routes);

 private:
  Task<> create(E2bExchange& exchange);
  Task<> list(E2bExchange& exchange);
  Task<> get(E2bExchange& exchange, std::string id);
  Task<> update(E2bExchange& exchange, std::string id);
  Task<> remove(E2bExchange& exchange, std::string id);
  // By id or name, of the caller's team.
  Result<control::CredentialSource> find(const E2bExchange& exchange, std::string_view id) const;
  bool is_secret(const control::CredentialSource& source) const;

  control::CredentialSources& sources_;
};

}  // namespace atl::service::e2b
