// Making, finding, prolonging, pausing and ending sandboxes, in E2B's words.
#pragma once

#include <vector>

#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/new_sandbox.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class LifecycleRoutes {
 public:
  explicit LifecycleRoutes(SandboxParts parts) : parts_(parts) {}
  void add_to(E2bRoutes& routes);
  // Asked in order about the body of every create.
  void add_mapper(ClaimMapper mapper) { mappers_.push_back(std::move(mapper)); }

 private:
  Task<> create(E2bExchange& exchange, CreateVersion version);
  Task<control::ClaimAnswer> claim(std::string team_id, NewSandbox made);
  Task<> connect(E2bExchange& exchange, std::string id, CreateVersion version);
  Task<> resume(E2bExchange& exchange, std::string id);
  Task<> get(E2bExchange& exchange, std::string id);
  Task<> remove(E2bExchange& exchange, std::string id);
  Task<> pause(E2bExchange& exchange, std::string id);
  Task<> set_timeout(E2bExchange& exchange, std::string id);
  Task<> refresh(E2bExchange& exchange, std::string id);

  // How a sandbox is to go on.
  struct Resumption {
    std::int64_t timeout_seconds = kDefaultTimeoutSeconds;
    bool memory = true;
    bool must_be_paused = false;
  };
  struct Resumed {
    control::Sandbox sandbox;
    bool was_paused = false;
  };
  Task<Resumed> go_on(E2bExchange& exchange, std::string id, Resumption how);
  Task<control::Sandbox> extend(control::Sandbox sandbox, std::int64_t seconds);

  SandboxParts parts_;
  std::vector<ClaimMapper> mappers_;
};

}  // namespace atl::service::e2b
