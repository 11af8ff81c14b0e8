// Moments of a volume, and volumes that begin there.
#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/volumes_hold.h"

namespace atl::control {
namespace {

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

Result<> validate(const VolumeSnapshotCreate& request, UnixMillis now) {
  if (trim(request.name).empty()) {
    return fail(Code::kInvalidArgument, "a snapshot of a volume needs a name");
  }
  if (request.name.size() > kMaxSnapshotNameBytes ||
      request.description.size() > kMaxSnapshotDescriptionBytes) {
    return fail(Code::kInvalidArgument,
                concat("name has at most ", kMaxSnapshotNameBytes, " bytes, description at most ",
                       kMaxSnapshotDescriptionBytes));
  }
  if (request.expires_at && *request.expires_at <= now) {
    return fail(Code::kInvalidArgument, "expires_at must be in the future");
  }
  return {};
}

}  // namespace

Task<VolumeSnapshot> Volumes::snapshot(std::string team_id, std::string id,
                                       VolumeSnapshotCreate request) {
  return shielded(snapshot_now(std::move(team_id), std::move(id), std::move(request)));
}

Task<VolumeSnapshot> Volumes::snapshot_now(std::string team_id, std::string id,
                                           VolumeSnapshotCreate request) {
  CO_TRY_DO(validate(request, clock_.now()));
  CO_TRY(const auto entry, find_local(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(kVolumeTimeout, hold(entry)));
  const auto of_team =
      count_making(kVolumeSnapshotPrefix, team_id) +
      static_cast<std::size_t>(std::ranges::count_if(
          snapshots_, [&](const auto& item) { return item.second.team_id == team_id; }));
  if (of_team >= kMaxVolumeSnapshotsPerTeam) {
    co_return fail(Code::kResourceExhausted,
                   concat("there are already ", of_team, " snapshots; delete some first"),
                   "quota_exceeded");
  }
  VolumeSnapshot snapshot{.id = concat(kVolumeSnapshotPrefix, random_label(16)),
                          .team_id = std::move(team_id),
                          .volume_id = id,
                          .name = std::move(request.name),
                          .description = std::move(request.description),
                          .created_at = clock_.now(),
                          .expires_at = request.expires_at};
  const Making making{*this, snapshot.id, snapshot.team_id};
  auto taken = co_await with_deadline(
      kVolumeTimeout, node_.snapshot_volume({.volume = id, .snapshot = snapshot.id}));
  if (!taken) {
    (void)co_await remove_disk_snapshot(snapshot.id);  // it may have been taken after all
    co_return fail(std::move(taken).error().note(concat("taking a snapshot of ", id)));
  }
  if (auto usage = co_await with_deadline(kNodeTimeout, node_.volume_usage(id)); usage) {
    snapshot.size_bytes = usage->disk_bytes;
  }
  ATOLL_FAULT_POINT("control.volume.snapshot_taken");
  auto stored = co_await store_.run(
      [&snapshot](store::Store& store) { return store.insert_volume_snapshot(snapshot); });
  if (!stored) {
    (void)co_await remove_disk_snapshot(snapshot.id);
    (void)co_await store_.run(
        [&snapshot](store::Store& store) { return store.remove_volume_snapshot(snapshot.id); });
    co_return fail(std::move(stored).error().note("recording the snapshot"));
  }
  snapshots_.emplace(snapshot.id, snapshot);
  deadlines_changed_.set();
  LOG_INFO("volume snapshot taken", {"snapshot", snapshot.id}, {"volume", id});
  co_return std::move(snapshot);
}

Result<std::vector<VolumeSnapshot>> Volumes::list_snapshots(std::string_view team_id,
                                                            std::string_view id) const {
  TRY_DO(find(team_id, id));
  std::vector<VolumeSnapshot> found;
  for (const auto& [snapshot_id, snapshot] : snapshots_) {
    if (snapshot.volume_id == id) {
      found.push_back(snapshot);
    }
  }
  std::ranges::sort(found, {}, [](const VolumeSnapshot& snapshot) {
    return std::pair{snapshot.created_at, snapshot.id};
  });
  return found;
}

Result<VolumeSnapshot> Volumes::get_snapshot(std::string_view team_id, std::string_view id,
                                             std::string_view snapshot_id) const {
  TRY_DO(find(team_id, id));
  const auto found = snapshots_.find(snapshot_id);
  if (found == snapshots_.end() || found->second.volume_id != id) {
    return no_such_volume_snapshot(snapshot_id);
  }
  return found->second;
}

Task<> Volumes::remove_snapshot(std::string team_id, std::string id, std::string snapshot_id) {
  if (!get_snapshot(team_id, id, snapshot_id)) {
    co_return ok();  // gone is gone
  }
  co_return co_await shielded(remove_snapshot_now(std::move(snapshot_id)));
}

Task<> Volumes::remove_snapshot_now(std::string id) {
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end()) {
    co_return ok();
  }
  // Held until it is gone, because a volume may begin as this snapshot, or go back to it.
  std::optional<Hold> held;
  if (const auto volume = entries_.find(found->second.volume_id); volume != entries_.end()) {
    const EntryPointer entry = volume->second;
    auto hold_of_volume = co_await with_deadline(kVolumeTimeout, hold(entry));
    if (hold_of_volume) {
      held.emplace(*std::move(hold_of_volume));
    } else if (!entry->gone) {
      co_return fail(std::move(hold_of_volume).error());
    }
  }
  if (!snapshots_.contains(id)) {
    co_return ok();  // somebody else removed it meanwhile
  }
  CO_TRY_DO(
      co_await store_.run([&id](store::Store& store) { return store.remove_volume_snapshot(id); }));
  ATOLL_FAULT_POINT("control.volume.snapshot_row_removed");
  snapshots_.erase(id);
  (void)co_await remove_disk_snapshot(id);
  co_return ok();
}

// --- going back ------------------------------------------------------------------------------

Task<> Volumes::restore(std::string team_id, std::string id, std::string snapshot_id, bool force) {
  return shielded(restore_now(std::move(team_id), std::move(id), std::move(snapshot_id), force));
}

Task<> Volumes::restore_now(std::string team_id, std::string id, std::string snapshot_id,
                            bool force) {
  CO_TRY(const auto entry, find_local(team_id, id));
  CO_TRY_DO(get_snapshot(team_id, id, snapshot_id));
  CO_TRY(const auto held, co_await with_deadline(kVolumeTimeout, hold(entry)));
  CO_TRY_DO(get_snapshot(team_id, id, snapshot_id));
  const Exchange exchange{entry};
  co_return co_await sandboxes_.without_users(
      id, force, [this, row = entry->row, snapshot_id] { return exchange_disk(row, snapshot_id); });
}

Task<> Volumes::exchange_disk(Volume row, std::string snapshot_id) {
  CO_TRY_DO(co_await cells_.close(row.id));
  node::VolumeRequest request{
      .volume = row.id, .snapshot = std::move(snapshot_id), .disk_bytes = row.disk_bytes};
  auto restored = co_await with_deadline(kVolumeTimeout, node_.restore_volume(std::move(request)));
  if (!restored) {
    co_return fail(std::move(restored).error().note(concat("restoring volume ", row.id)));
  }
  ATOLL_FAULT_POINT("control.volume.restored");
  LOG_INFO("volume restored", {"volume", row.id});
  co_return ok();
}

// --- forks -----------------------------------------------------------------------------------

Task<VolumeView> Volumes::fork(std::string team_id, std::string id, VolumeFork request) {
  return shielded(fork_now(std::move(team_id), std::move(id), std::move(request)));
}

Task<VolumeView> Volumes::fork_now(std::string team_id, std::string id, VolumeFork request) {
  CO_TRY_DO(check_quota(team_id));
  CO_TRY(const auto source, find_local(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(kVolumeTimeout, hold(source)));
  Volume row = source->row;
  row.user_id = std::move(request.user_id);
  row.access_mode = request.access_mode.value_or(row.access_mode);
  row.posix_uid = request.posix_uid.value_or(row.posix_uid);
  row.posix_gid = request.posix_gid.value_or(row.posix_gid);
  CO_TRY(auto made, co_await fork_held(source, std::move(row)));
  co_return co_await view(std::move(made));
}

// REQUIRES: the source is held.
Task<Volumes::EntryPointer> Volumes::fork_held(EntryPointer source, Volume row) {
  const std::string moment = concat(kVolumeForkPrefix, random_label(16));
  const Making making{*this, moment, row.team_id};
  auto taken = co_await with_deadline(
      kVolumeTimeout, node_.snapshot_volume({.volume = source->row.id, .snapshot = moment}));
  Result<EntryPointer> made;
  if (taken) {
    made = co_await make_from(std::move(row), moment);
  } else {
    made = fail(std::move(taken).error().note(concat("forking volume ", source->row.id)));
  }
  ATOLL_FAULT_POINT("control.volume.forked");
  (void)co_await remove_disk_snapshot(moment);
  co_return std::move(made);
}

// `source` as the new one shall be, but for its name and its time.
Task<Volumes::EntryPointer> Volumes::make_from(Volume source, std::string moment) {
  source.source_volume_id = std::exchange(source.id, concat(node::kVolumePrefix, random_label(16)));
  source.created_at = source.updated_at = clock_.now();
  co_return co_await make(std::move(source), std::move(moment));
}

// --- expiry ----------------------------------------------------------------------------------

Task<> Volumes::run() {
  for (;;) {
    CO_TRY_DO(co_await expire_due());
    CO_TRY_DO(co_await settle_late());
    if (leftovers_) {
      leftovers_ = false;
      if (auto cleaned = co_await shielded(remove_disks_without_rows()); !cleaned) {
        leftovers_ = true;
      }
    }
    std::optional<UnixMillis> next;
    if (leftovers_ || !unsettled_.empty()) {
      next = clock_.now() + kExpiryRetryMs;
    }
    for (const auto& [id, snapshot] : snapshots_) {
      if (snapshot.expires_at && (!next || *snapshot.expires_at < *next)) {
        next = snapshot.expires_at;
      }
    }
    deadlines_changed_.clear();
    const auto wait_ms =
        next ? std::clamp<UnixMillis>(*next - clock_.now(), 1, kMaxExpiryWaitMs) : kMaxExpiryWaitMs;
    auto waited =
        co_await with_deadline(std::chrono::milliseconds{wait_ms}, wait_for(deadlines_changed_));
    if (!waited && waited.error().code == Code::kCancelled) {
      co_return ok();
    }
  }
}

Task<> Volumes::expire_due() {
  std::vector<std::string> over;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.expires_at && *snapshot.expires_at <= clock_.now()) {
      over.push_back(id);
    }
  }
  for (const std::string& id : over) {
    auto removed = co_await shielded(remove_snapshot_now(id));
    if (!removed && removed.error().code == Code::kCancelled) {
      co_return fail(std::move(removed).error());
    }
    if (!removed) {
      LOG_WARN("could not remove an expired snapshot yet", {"snapshot", id},
               {"error", removed.error()});
      CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{kExpiryRetryMs}));
    }
  }
  co_return ok();
}

}  // namespace atl::control
