#include "daemon/e2b_edge.h"

namespace atl::daemon {

using service::e2b::E2bExchange;
using service::e2b::NewSandbox;
using service::e2b::SandboxTarget;

E2bEdge::E2bEdge(const Parts& parts)
    : terms_(parts.sandbox_parts.terms),
      gateway_(parts.gateway),
      networks_(parts.sandbox_parts, parts.policies, parts.credentials),
      volumes_(parts.sandbox_parts, parts.volumes, parts.volume_names),
      contents_(parts.sandbox_parts, parts.volumes),
      secrets_(parts.credentials) {}

void E2bEdge::add_to(service::e2b::E2bApi& api, service::e2b::LifecycleRoutes& lifecycle) {
  networks_.add_to(api.routes());
  volumes_.add_to(api.routes());
  contents_.add_to(api.routes());
  secrets_.add_to(api.routes());
  lifecycle.add_mapper([this](const std::string& team_id, const Json& body, NewSandbox& made) {
    return networks_.map_claim(team_id, body, made);
  });
  lifecycle.add_mapper([this](const std::string& team_id, const Json& body, NewSandbox& made) {
    return volumes_.map_claim(team_id, body, made);
  });
  api.on_port([this](E2bExchange& exchange, const SandboxTarget& target) {
    exchange.pass_through();
    return gateway_.serve_port(exchange, {.team_id = target.sandbox.team_id,
                                          .sandbox_id = target.sandbox.sandbox_id,
                                          .port = target.port,
                                          .terms = terms_.find(target.sandbox.sandbox_id)});
  });
}

}  // namespace atl::daemon
