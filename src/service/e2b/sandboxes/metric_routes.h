// What sandboxes use, as samples.
#pragma once

#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class MetricRoutes {
 public:
  explicit MetricRoutes(SandboxParts parts) : parts_(parts) {}
  void add_to(E2bRoutes& routes);

 private:
  Task<> of_one(E2bExchange& exchange, std::string id);
  Task<> of_many(E2bExchange& exchange);

  SandboxParts parts_;
};

// Oldest first, as they come from control.
std::vector<Json> metrics_json(const control::Sandbox& sandbox,
                               const std::vector<control::UsageSample>& samples);

}  // namespace atl::service::e2b
