// Puts the parts of the E2B dialect together and in front of everything else.
#pragma once

#include "control/access_tokens.h"
#include "control/build_files.h"
#include "control/contexts.h"
#include "control/credential_sources.h"
#include "control/identity.h"
#include "control/network_policies.h"
#include "control/public_names.h"
#include "control/sandbox_terms.h"
#include "control/sandboxes.h"
#include "control/snapshots.h"
#include "control/template_catalog.h"
#include "control/template_jobs.h"
#include "control/volume_names.h"
#include "control/volumes.h"
#include "daemon/e2b_edge.h"
#include "ingress/gateway.h"
#include "service/e2b/e2b_api.h"
#include "service/e2b/envd/envd.h"
#include "service/e2b/interpreter/code_interpreter.h"
#include "service/e2b/sandboxes/lifecycle_routes.h"
#include "service/e2b/sandboxes/list_routes.h"
#include "service/e2b/sandboxes/log_routes.h"
#include "service/e2b/sandboxes/metric_routes.h"
#include "service/e2b/sandboxes/state_routes.h"
#include "service/e2b/templates/build_routes.h"
#include "service/e2b/templates/catalog_names.h"
#include "service/e2b/templates/template_routes.h"

namespace atl::daemon {

class E2bDialect {
 public:
  struct Parts {
    control::Sandboxes& sandboxes;
    control::SandboxTerms& terms;
    const control::AccessTokens& tokens;
    control::SandboxLog& log;
    control::Snapshots& snapshots;
    control::Contexts& contexts;
    control::Identity& identity;
    control::TemplateJobs& templates;
    control::TemplateCatalog& catalog;
    control::BuildFiles& build_files;
    control::Volumes& volumes;
    control::VolumeNames& volume_names;
    control::NetworkPolicies& policies;
    control::CredentialSources& credentials;
    ingress::Gateway& gateway;
    const control::PublicNames& names;
    const WallClock& clock;
    Metrics& metrics;
  };
  // All of them outlive this.
  explicit E2bDialect(const Parts& parts);
  E2bDialect(const E2bDialect&) = delete;
  E2bDialect& operator=(const E2bDialect&) = delete;

  // What goes on between requests; until cancelled. REQUIRES: before handle().
  Task<> run() { return watches_.run(); }
  // Serves what is E2B's; everything else goes to `next`.
  Task<> handle(http::Exchange& exchange, const http::Handler& next) {
    return api_.handle(exchange, next);
  }

 private:
  service::e2b::E2bApi api_;
  service::e2b::CatalogNames template_names_;
  service::e2b::SandboxParts sandbox_parts_;
  service::e2b::TemplateRoutes templates_;
  service::e2b::BuildRoutes builds_;
  service::e2b::LifecycleRoutes lifecycle_;
  service::e2b::ListRoutes lists_;
  service::e2b::StateRoutes states_;
  service::e2b::MetricRoutes metrics_;
  service::e2b::LogRoutes logs_;
  control::PolledWatches watches_;
  service::e2b::envd::Envd envd_;
  E2bEdge edge_;
  service::e2b::interpreter::CodeInterpreter interpreter_;
};

}  // namespace atl::daemon
