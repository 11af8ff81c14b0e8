// The files of sandboxes as places for the file routes. Opening one wakes it up.
#pragma once

#include "control/contexts.h"
#include "control/files.h"

namespace atl::control {

class SandboxFiles final : public FilePlaces {
 public:
  SandboxFiles(Contexts& contexts, const Sandboxes& sandboxes)
      : contexts_(contexts), sandboxes_(sandboxes) {}

  FileDefaults defaults(const PlaceRef& ref) const override {
    const TemplateDefaults& defaults = contexts_.defaults({ref.team_id, ref.id});
    return {.user = defaults.user, .cwd = defaults.cwd};
  }
  Task<std::unique_ptr<Files>> open(PlaceRef ref) override {
    CO_TRY(auto client, co_await contexts_.guest({std::move(ref.team_id), std::move(ref.id)}));
    co_return std::unique_ptr<Files>{std::make_unique<GuestFiles>(std::move(client))};
  }
  Result<std::uint64_t> room_bytes(const PlaceRef& ref) const override {
    TRY(const auto row, sandboxes_.get(ref.team_id, ref.id));
    return row.limits.disk_bytes;
  }

 private:
  Contexts& contexts_;
  const Sandboxes& sandboxes_;
};

}  // namespace atl::control
