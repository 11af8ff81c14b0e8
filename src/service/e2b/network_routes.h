// The network of a sandbox in E2B's words: at its making, and changed later.
#pragma once

#include "control/credential_sources.h"
#include "control/network_policies.h"
#include "service/e2b/e2b_routes.h"
#include "service/e2b/network_translation.h"
#include "service/e2b/sandboxes/new_sandbox.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class NetworkRoutes {
 public:
  // All outlive this.
  NetworkRoutes(SandboxParts parts, control::NetworkPolicies& policies,
                const control::CredentialSources& sources)
      : parts_(parts), policies_(policies), sources_(sources) {}
  void add_to(E2bRoutes& routes);
  // For the body of a create.
  Result<> map_claim(const std::string& team_id, const Json& body, NewSandbox& made) const;

 private:
  Task<> replace(E2bExchange& exchange, std::string id);
  ValueSealer sealer(const std::string& team_id) const;

  SandboxParts parts_;
  control::NetworkPolicies& policies_;
  const control::CredentialSources& sources_;
};

}  // namespace atl::service::e2b
