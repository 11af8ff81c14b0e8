// The services of all sandboxes: one document each, in the store, owned by its sandbox, and all of
// them in memory, because this process is their only writer. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/documents.h"
#include "control/sandboxes.h"
#include "control/service.h"
#include "control/store_access.h"

namespace atl::control {

class Services final : public DocumentKeeper {
 public:
  Services(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock);

  // Reads the documents. REQUIRES: the sandboxes have started, and before anything else.
  Task<> start();

  // Null when the sandbox has none, or is gone.
  SandboxServicesPtr find(std::string_view sandbox_id) const;
  // Those of a sandbox of the team; kNotFound when there is no such sandbox.
  Result<SandboxServicesPtr> get(std::string_view team_id, std::string_view sandbox_id) const;
  // Replaces all of them; durable when it returns.
  Task<SandboxServicesPtr> put(std::string team_id, std::string sandbox_id,
                               std::vector<Service> services);
  // For a claim.
  static store::Record document(const std::vector<Service>& services);
  // Told after the services of a sandbox have changed, or are there for the first time.
  void on_changed(std::function<void(SandboxServicesPtr)> told) { changed_ = std::move(told); }

  std::vector<store::Record> inherit(const std::string& parent_id) override;
  void recorded(const store::Sandbox& sandbox, const store::Record& record) override;

 private:
  void keep(SandboxServicesPtr services);
  void forget_lost();

  StoreAccess store_;
  Sandboxes& sandboxes_;
  const WallClock& clock_;
  std::map<std::string, SandboxServicesPtr, std::less<>> services_;  // by sandbox
  std::size_t tidy_at_ = 64;
  std::function<void(SandboxServicesPtr)> changed_;
};

}  // namespace atl::control
