// The native dialect as one HTTP handler: request id, key, route, envelope, log line, metrics.
//
// See service/README.md for how main wires it. Loop thread only.
#pragma once

#include "base/clock.h"
#include "base/metrics.h"
#include "control/contexts.h"
#include "control/identity.h"
#include "control/sandbox_files.h"
#include "control/sandboxes.h"
#include "http/router.h"
#include "service/native/diff_routes.h"
#include "service/native/file_routes.h"
#include "service/native/routes.h"
#include "service/native/template_routes.h"
#include "service/native/volume_routes.h"

namespace atl::service::native {

class NativeApi {
 public:
  NativeApi(control::Sandboxes& sandboxes, control::Snapshots& snapshots,
            control::Contexts& contexts, control::Identity& identity, const WallClock& clock,
            Metrics& metrics, control::TemplateJobs* templates = nullptr,
            control::TreeArchives* archives = nullptr, control::Volumes* volumes = nullptr,
            control::Diffs* diffs = nullptr);
  NativeApi(const NativeApi&) = delete;
  NativeApi& operator=(const NativeApi&) = delete;

  // http::Handler: [&api](http::Exchange& exchange) { return api.handle(exchange); }
  Task<> handle(http::Exchange& exchange);
  // For the test that holds them against the contract.
  const std::vector<RouteEntry>& routes() const { return routes_; }

 private:
  Task<> dispatch(NativeExchange& exchange, std::string_view& pattern);
  Result<> authenticate(NativeExchange& exchange);
  void record(const NativeExchange& exchange, std::string_view pattern, Duration took,
              const Result<>& result);

  control::Identity& identity_;
  Metrics& metrics_;
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
  std::vector<RouteEntry> routes_;
};

}  // namespace atl::service::native
