// Forks and snapshots, both with the processes where the node can keep them.
#pragma once

#include "control/warm_forks.h"
#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class StateRoutes {
 public:
  StateRoutes(SandboxParts parts, control::Contexts& contexts)
      : parts_(parts), warm_forks_(contexts, parts.sandboxes, parts.snapshots) {}
  void add_to(E2bRoutes& routes);
  // DELETE /templates/{id} of a template; checks itself whether the caller may.
  void on_template_delete(E2bHandler handler) { template_delete_ = std::move(handler); }

 private:
  Task<> fork(E2bExchange& exchange, std::string id);
  Task<> take(E2bExchange& exchange, std::string id);
  Task<> list(E2bExchange& exchange);
  Task<> remove(E2bExchange& exchange, const http::PathParameters& parameters);
  Task<> remove_snapshot(E2bExchange& exchange, std::string id);

  SandboxParts parts_;
  control::WarmForks warm_forks_;
  E2bHandler template_delete_;
};

}  // namespace atl::service::e2b
