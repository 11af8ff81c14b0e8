#include "daemon/e2b_dialect.h"

#include "service/e2b/health_routes.h"

namespace atl::daemon {
namespace {

service::e2b::TemplateParts template_parts(const E2bDialect::Parts& parts) {
  return {.sandboxes = parts.sandboxes,
          .snapshots = parts.snapshots,
          .catalog = parts.catalog,
          .jobs = parts.templates,
          .files = parts.build_files,
          .tokens = parts.tokens,
          .names = parts.names,
          .clock = parts.clock};
}

}  // namespace

// Each part adds its routes, or takes a port of sandboxes: api_.on_envd(), api_.on_interpreter(),
// api_.on_port().
E2bDialect::E2bDialect(const Parts& parts)
    : api_({.sandboxes = parts.sandboxes,
            .terms = parts.terms,
            .tokens = parts.tokens,
            .identity = parts.identity,
            .log = parts.log,
            .names = parts.names,
            .clock = parts.clock,
            .metrics = parts.metrics}),
      template_names_(parts.catalog, parts.sandboxes),
      sandbox_parts_{.sandboxes = parts.sandboxes,
                     .terms = parts.terms,
                     .snapshots = parts.snapshots,
                     .log = parts.log,
                     .tokens = parts.tokens,
                     .templates = template_names_,
                     .names = parts.names,
                     .clock = parts.clock},
      templates_(template_parts(parts)),
      builds_(template_parts(parts)),
      lifecycle_(sandbox_parts_),
      lists_(sandbox_parts_),
      states_(sandbox_parts_, parts.contexts),
      metrics_(sandbox_parts_),
      logs_(sandbox_parts_, parts.log),
      envd_(parts.sandboxes, parts.contexts, watches_, parts.clock),
      edge_({.sandbox_parts = sandbox_parts_,
             .policies = parts.policies,
             .credentials = parts.credentials,
             .volumes = parts.volumes,
             .volume_names = parts.volume_names,
             .gateway = parts.gateway}),
      interpreter_(parts.contexts, parts.clock) {
  service::e2b::add_health_routes(api_.routes());
  templates_.add_to(api_.routes());
  builds_.add_to(api_.routes());
  states_.on_template_delete(
      [this](service::e2b::E2bExchange& exchange, const http::PathParameters& parameters) {
        return templates_.remove(exchange, parameters);
      });
  lifecycle_.add_to(api_.routes());
  lists_.add_to(api_.routes());
  states_.add_to(api_.routes());
  metrics_.add_to(api_.routes());
  logs_.add_to(api_.routes());
  api_.on_envd(
      [this](service::e2b::E2bExchange& exchange, const service::e2b::SandboxTarget& target) {
        return envd_.handle(exchange, target);
      });
  edge_.add_to(api_, lifecycle_);
  api_.on_interpreter(
      [this](service::e2b::E2bExchange& exchange, const service::e2b::SandboxTarget& target) {
        return interpreter_.handle(exchange, target);
      });
}

}  // namespace atl::daemon
