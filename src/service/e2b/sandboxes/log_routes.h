// What happened to a sandbox, line by line: GET .../logs of v1 and v2.
#pragma once

#include "control/sandbox_log.h"
#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class LogRoutes {
 public:
  LogRoutes(SandboxParts parts, const control::SandboxLog& log) : parts_(parts), log_(log) {}
  void add_to(E2bRoutes& routes);

 private:
  Task<> read_v1(E2bExchange& exchange, std::string id);
  Task<> read_v2(E2bExchange& exchange, std::string id);

  SandboxParts parts_;
  const control::SandboxLog& log_;
};

}  // namespace atl::service::e2b
