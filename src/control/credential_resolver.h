// What a binding comes to at the moment of a request: the source opened, fetched if it must be, and
// rendered. Asked anew for every request, so that the next one after a rotation has the new value.
#pragma once

#include "control/credential_fetcher.h"
#include "control/credential_sources.h"
#include "egress/boundary.h"

namespace atl::control {

class CredentialResolver final : public egress::Credentials {
 public:
  // Both outlive this.
  CredentialResolver(CredentialSources& sources, CredentialFetcher& fetcher)
      : sources_(sources), fetcher_(fetcher) {}

  Task<egress::MaterialPtr> resolve(egress::RulesPtr rules, std::string ref) override;

 private:
  CredentialSources& sources_;
  CredentialFetcher& fetcher_;
};

// A binding's values as the proxy uses them; kFailedPrecondition when one is missing or unusable.
Result<egress::MaterialPtr> project(const egress::Binding& binding, const SecretValues& values,
                                    std::string source_version);

}  // namespace atl::control
