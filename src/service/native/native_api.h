// The native dialect as one HTTP handler: request id, key, route, envelope, log line, metrics.
//
// See service/README.md for how main wires it. Loop thread only.
#pragma once

#include <map>
#include <unordered_map>

#include "base/clock.h"
#include "base/metrics.h"
#include "control/contexts.h"
#include "control/identity.h"
#include "control/sandbox_files.h"
#include "control/sandboxes.h"
#include "http/router.h"
#include "service/native/credential_routes.h"
#include "service/native/diff_routes.h"
#include "service/native/file_routes.h"
#include "service/native/flow_routes.h"
#include "service/native/network_routes.h"
#include "service/native/routes.h"
#include "service/native/service_routes.h"
#include "service/native/ssh_key_routes.h"
#include "service/native/template_routes.h"
#include "service/native/volume_routes.h"

namespace atl::service::native {

// Null: this server has none.
struct NetworkParts {
  control::NetworkPolicies* policies = nullptr;
  control::CredentialSources* credentials = nullptr;
};

class NativeApi {
 public:
  NativeApi(control::Sandboxes& sandboxes, control::Snapshots& snapshots,
            control::Contexts& contexts, control::Identity& identity, const WallClock& clock,
            Metrics& metrics, control::TemplateJobs* templates = nullptr,
            control::TreeArchives* archives = nullptr, control::Volumes* volumes = nullptr,
            control::Diffs* diffs = nullptr, AuditParts audit = {},
            const Published* published = nullptr, control::SshKeys* ssh_keys = nullptr,
            NetworkParts network = {});
  NativeApi(const NativeApi&) = delete;
  NativeApi& operator=(const NativeApi&) = delete;

  // http::Handler: [&api](http::Exchange& exchange) { return api.handle(exchange); }
  Task<> handle(http::Exchange& exchange);
  void announce_ssh(SshAddress address) { sandboxes_.announce_ssh(std::move(address)); }
  // For the test that holds them against the contract.
  const std::vector<RouteEntry>& routes() const { return routes_; }

 private:
  Task<> dispatch(NativeExchange& exchange, std::string_view& pattern);
  Result<> authenticate(NativeExchange& exchange);
  void record(const NativeExchange& exchange, std::string_view pattern, Duration took,
              const Result<>& result);

  control::Identity& identity_;
  // The instruments of a route, found by the address of its pattern: their names are long, and
  // there are many.
  struct RouteMetrics {
    Histogram* seconds = nullptr;
    std::map<int, Counter*> answers;  // by status
  };
  void count(const NativeExchange& exchange, std::string_view pattern, Duration took);

  Metrics& metrics_;
  std::unordered_map<const void*, RouteMetrics> route_metrics_;
  http::Router router_;
  Idempotency idempotency_;
  MetaRoutes meta_;
  SandboxRoutes sandboxes_;
  StateRoutes state_;
  ContextRoutes contexts_;
  control::SandboxFiles sandbox_files_;
  FileRoutes files_;
  TemplateRoutes templates_;
  VolumeRoutes volumes_;
  std::optional<FileRoutes> volume_files_;
  DiffRoutes diffs_;
  FlowRoutes flows_;
  ApprovalRoutes approvals_;
  ServiceRoutes services_;
  SshKeyRoutes ssh_keys_;
  NetworkRoutes network_;
  CredentialRoutes credentials_;
  std::vector<RouteEntry> routes_;
};

}  // namespace atl::service::native
