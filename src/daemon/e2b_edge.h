// The part of the E2B dialect that is around sandboxes: their networks and ports, volumes, secrets.
#pragma once

#include "control/credential_sources.h"
#include "control/network_policies.h"
#include "control/volume_names.h"
#include "ingress/gateway.h"
#include "service/e2b/e2b_api.h"
#include "service/e2b/network_routes.h"
#include "service/e2b/sandboxes/lifecycle_routes.h"
#include "service/e2b/secrets/secret_routes.h"
#include "service/e2b/volumes/volume_content_routes.h"
#include "service/e2b/volumes/volume_routes.h"

namespace atl::daemon {

class E2bEdge {
 public:
  struct Parts {
    service::e2b::SandboxParts sandbox_parts;
    control::NetworkPolicies& policies;
    control::CredentialSources& credentials;
    control::Volumes& volumes;
    control::VolumeNames& volume_names;
    ingress::Gateway& gateway;
  };
  // All of them outlive this.
  explicit E2bEdge(const Parts& parts);
  E2bEdge(const E2bEdge&) = delete;
  E2bEdge& operator=(const E2bEdge&) = delete;

  void add_to(service::e2b::E2bApi& api, service::e2b::LifecycleRoutes& lifecycle);

 private:
  control::SandboxTerms& terms_;
  ingress::Gateway& gateway_;
  service::e2b::NetworkRoutes networks_;
  service::e2b::VolumeRoutes volumes_;
  service::e2b::VolumeContentRoutes contents_;
  service::e2b::SecretRoutes secrets_;
};

}  // namespace atl::daemon
