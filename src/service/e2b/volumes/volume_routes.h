// Volumes in E2B's words: made, listed and removed by name, mounted at the making of a sandbox.
#pragma once

#include "control/volume_names.h"
#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/new_sandbox.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class VolumeRoutes {
 public:
  // All outlive this.
  VolumeRoutes(SandboxParts parts, control::Volumes& volumes, control::VolumeNames& names)
      : parts_(parts), volumes_(volumes), names_(names) {}
  void add_to(E2bRoutes& routes);
  // `volumeMounts` of the body of a create.
  Result<> map_claim(const std::string& team_id, const Json& body, NewSandbox& made) const;

 private:
  Task<> create(E2bExchange& exchange);
  Task<> list(E2bExchange& exchange);
  Task<> get(E2bExchange& exchange, std::string id);
  Task<> remove(E2bExchange& exchange, std::string id);
  Json volume_json(const E2bExchange& exchange, const std::string& volume_id) const;

  SandboxParts parts_;
  control::Volumes& volumes_;
  control::VolumeNames& names_;
};

}  // namespace atl::service::e2b
