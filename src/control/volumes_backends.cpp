// Volumes that something else than our own disk keeps.
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/volumes_hold.h"

namespace atl::control {

// One that cannot be opened any more stays as it is: its use will say what is wrong.
Task<> Volumes::renew_secrets() {
  std::vector<EntryPointer> others;
  for (const auto& [id, entry] : entries_) {
    if (backends_.contains(entry->row.backend)) {
      others.push_back(entry);
    }
  }
  for (const EntryPointer& entry : others) {
    Volume row = entry->row;
    const auto renewed = backends_.find(row.backend)->second->renew(row);
    if (!renewed) {
      LOG_ERROR("the secret of a volume cannot be opened", {"volume", row.id},
                {"error", renewed.error()});
    } else if (*renewed) {
      CO_TRY_DO(co_await put(row));
      entry->row = std::move(row);
    }
  }
  co_return ok();
}

void Volumes::add_usage(VolumeView& view) {
  const auto backend = backends_.find(view.volume.backend);
  const auto seen = backend == backends_.end() ? std::nullopt : backend->second->usage(view.volume);
  if (seen) {
    view.used_bytes = seen->bytes;
    view.observed_at = seen->observed_at;
  }
}

Task<std::unique_ptr<Files>> Volumes::open(PlaceRef ref) {
  CO_TRY(const auto entry, find(ref.team_id, ref.id));
  if (entry->row.backend != kLocalBackend) {
    const auto backend = backends_.find(entry->row.backend);
    if (backend == backends_.end()) {
      co_return fail(Code::kUnavailable,
                     concat("this server does not know the backend of volume ", ref.id));
    }
    co_return co_await backend->second->open(entry->row);
  }
  // Not while its disk is exchanged.
  CO_TRY(const auto held, co_await with_deadline(kNodeTimeout, hold(entry)));
  co_return co_await cells_.open(entry->row);
}

}  // namespace atl::control
