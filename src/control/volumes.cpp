#include "control/volumes.h"

#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/volumes_hold.h"

namespace atl::control {

Volumes::Volumes(StoreAccess store, node::Node& node, Sandboxes& sandboxes, VolumeCells& cells,
                 const WallClock& clock)
    : store_(store), node_(node), sandboxes_(sandboxes), cells_(cells), clock_(clock) {
  sandboxes_.on_mounts(this);
}

Volumes::~Volumes() {
  sandboxes_.on_mounts(nullptr);
}

// --- the start -------------------------------------------------------------------------------

Task<> Volumes::start() {
  CO_TRY(auto rows, co_await store_.run([](store::Store& store) { return store.list_volumes(); }));
  CO_TRY(auto snapshots,
         co_await store_.run([](store::Store& store) { return store.list_volume_snapshots(); }));
  for (auto& row : rows) {
    auto entry = std::make_shared<Entry>();
    entry->row = std::move(row);
    entries_.emplace(entry->row.id, std::move(entry));
  }
  for (auto& snapshot : snapshots) {
    std::string id = snapshot.id;
    snapshots_.emplace(std::move(id), std::move(snapshot));
  }
  CO_TRY(const auto hello, co_await with_deadline(kNodeTimeout, node_.hello()));
  pool_bytes_ = hello.pool_total_bytes;
  CO_TRY_DO(co_await finish_unready());
  CO_TRY_DO(co_await renew_secrets());
  co_return co_await remove_disks_without_rows();
}

// A volume that was made for the child of a fork is that child's, if there is one.
Task<> Volumes::finish_unready() {
  std::vector<std::string> unready;
  for (const auto& [id, entry] : entries_) {
    if (!entry->row.ready) {
      unready.push_back(id);
    }
  }
  for (const std::string& id : unready) {
    CO_TRY_DO(co_await settle_one(id, !sandboxes_.mounted_in(id).empty()));
  }
  co_return ok();
}

Task<> Volumes::remove_disks_without_rows() {
  auto disks = co_await with_deadline(kNodeTimeout, node_.list_volumes());
  if (!disks && disks.error().code == Code::kUnimplemented) {
    co_return ok();  // this node has none
  }
  CO_TRY_DO(disks);
  for (const std::string& id : *disks) {
    if (!entries_.contains(id) && !making_.contains(id)) {
      LOG_INFO("removing a volume that was never finished", {"volume", id});
      CO_TRY_DO(co_await remove_disk(id));
    }
  }
  for (const auto& [id, entry] : entries_) {
    if (entry->row.backend == kLocalBackend && std::ranges::find(*disks, id) == disks->end()) {
      LOG_ERROR("a volume has no disk", {"volume", id});
    }
  }
  CO_TRY(const auto moments, co_await with_deadline(kNodeTimeout, node_.list_snapshots()));
  for (const std::string& id : moments) {
    const bool ours = id.starts_with(kVolumeForkPrefix) || id.starts_with(kVolumeSnapshotPrefix);
    if (ours && !snapshots_.contains(id) && !making_.contains(id)) {
      LOG_INFO("removing a snapshot that was never finished", {"snapshot", id});
      CO_TRY_DO(co_await remove_disk_snapshot(id));
    }
  }
  co_return ok();
}

// --- looking ---------------------------------------------------------------------------------

Result<Volumes::EntryPointer> Volumes::find(std::string_view team_id, std::string_view id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->gone || !found->second->row.ready ||
      found->second->row.team_id != team_id) {
    return no_such_volume(id);
  }
  return found->second;
}

Result<Volumes::EntryPointer> Volumes::find_local(std::string_view team_id,
                                                  std::string_view id) const {
  TRY(auto entry, find(team_id, id));
  if (entry->row.backend != kLocalBackend) {
    return fail(Code::kInvalidArgument,
                concat("volume ", id, " is kept by ", entry->row.backend,
                       ", which has no snapshots, forks and mounts"),
                "unsupported_backend");
  }
  return entry;
}

Task<VolumeView> Volumes::view(EntryPointer entry) {
  VolumeView out{.volume = entry->row, .sandboxes = sandboxes_.mounted_in(entry->row.id)};
  if (entry->row.backend != kLocalBackend) {
    add_usage(out);
    co_return std::move(out);
  }
  // Not every pool keeps an account; a size that is not known is no error.
  auto usage = co_await with_deadline(kNodeTimeout, node_.volume_usage(entry->row.id));
  if (usage) {
    out.used_bytes = usage->disk_bytes;
    out.observed_at = clock_.now();
  } else if (usage.error().code == Code::kCancelled) {
    co_return fail(std::move(usage).error());
  }
  co_return std::move(out);
}

Task<VolumeView> Volumes::get(std::string team_id, std::string id) {
  CO_TRY(auto entry, find(team_id, id));
  co_return co_await view(std::move(entry));
}

Task<std::vector<VolumeView>> Volumes::list(std::string team_id) {
  std::vector<EntryPointer> entries;
  for (const auto& [id, entry] : entries_) {
    if (find(team_id, id)) {
      entries.push_back(entry);
    }
  }
  std::ranges::sort(entries, {}, [](const EntryPointer& entry) {
    return std::pair{entry->row.created_at, entry->row.id};
  });
  std::vector<VolumeView> views;
  for (const EntryPointer& entry : entries) {
    CO_TRY(auto one, co_await view(entry));
    views.push_back(std::move(one));
  }
  co_return std::move(views);
}

Task<Volumes::Hold> Volumes::hold(EntryPointer entry) {
  while (entry->busy) {
    entry->released.clear();
    CO_TRY_DO(co_await entry->released.wait());
  }
  if (entry->gone) {
    co_return no_such_volume(entry->row.id);
  }
  co_return Hold{std::move(entry)};
}

// --- making ----------------------------------------------------------------------------------

std::size_t Volumes::count_making(std::string_view prefix, std::string_view team_id) const {
  return static_cast<std::size_t>(std::ranges::count_if(making_, [&](const auto& item) {
    return item.first.starts_with(prefix) && item.second == team_id;
  }));
}

Result<> Volumes::check_quota(std::string_view team_id) const {
  const auto of_team =
      count_making(node::kVolumePrefix, team_id) +
      static_cast<std::size_t>(std::ranges::count_if(
          entries_, [&](const auto& item) { return item.second->row.team_id == team_id; }));
  if (of_team >= kMaxVolumesPerTeam) {
    return fail(Code::kResourceExhausted,
                concat("there are already ", of_team, " volumes; delete some first"),
                "quota_exceeded");
  }
  return {};
}

Task<VolumeView> Volumes::create(std::string team_id, VolumeCreate request) {
  return shielded(create_now(std::move(team_id), std::move(request)));
}

Task<VolumeView> Volumes::create_now(std::string team_id, VolumeCreate request) {
  CO_TRY_DO(check_quota(team_id));
  if (request.posix_uid > node::kMaxPosixId || request.posix_gid > node::kMaxPosixId) {
    co_return fail(
        Code::kInvalidArgument,
        concat("default_posix_uid and default_posix_gid are at most ", node::kMaxPosixId));
  }
  const std::uint64_t most = pool_bytes_ == 0 ? node::kMaxDiskBytes : pool_bytes_;
  const std::uint64_t disk_bytes = request.disk_bytes.value_or(std::min(kDefaultVolumeBytes, most));
  if (disk_bytes < kMinVolumeBytes || disk_bytes > most) {
    co_return fail(Code::kInvalidArgument,
                   concat("a volume has from ", format_quantity(kMinVolumeBytes), " to ",
                          format_quantity(most)));
  }
  Volume row{.id = concat(node::kVolumePrefix, random_label(16)),
             .team_id = team_id,
             .user_id = std::move(request.user_id),
             .access_mode = request.access_mode,
             .posix_uid = request.posix_uid,
             .posix_gid = request.posix_gid,
             .disk_bytes = disk_bytes,
             .backend = std::move(request.backend),
             .settings = std::move(request.settings),
             .created_at = clock_.now()};
  row.updated_at = row.created_at;
  if (row.backend != kLocalBackend) {
    const auto backend = backends_.find(row.backend);
    if (backend == backends_.end() || !request.snapshot_id.empty()) {
      co_return fail(Code::kInvalidArgument,
                     backend == backends_.end()
                         ? concat("this server has no volumes of backend \"", row.backend, "\"")
                         : "only a volume of our own disk begins as a snapshot",
                     "unsupported_backend");
    }
    CO_TRY_DO(co_await backend->second->admit(row, std::move(request.secret)));
  }
  EntryPointer source;
  std::optional<Hold> held;
  if (!request.snapshot_id.empty()) {
    const auto snapshot = snapshots_.find(request.snapshot_id);
    if (snapshot == snapshots_.end() || snapshot->second.team_id != team_id) {
      co_return no_such_volume_snapshot(request.snapshot_id);
    }
    row.source_volume_id = snapshot->second.volume_id;
    // Held, so that the snapshot is not deleted meanwhile.
    CO_TRY(source, find(team_id, row.source_volume_id));
    CO_TRY(auto hold_of_source, co_await hold(source));
    held.emplace(std::move(hold_of_source));
    if (!snapshots_.contains(request.snapshot_id)) {
      co_return no_such_volume_snapshot(request.snapshot_id);
    }
  }
  CO_TRY(auto made, co_await make(std::move(row), std::move(request.snapshot_id)));
  co_return co_await view(std::move(made));
}

// The disk, then the row; both durable.
Task<Volumes::EntryPointer> Volumes::make(Volume row, std::string from_snapshot) {
  const bool local = row.backend == kLocalBackend;
  CO_TRY_DO(check_quota(row.team_id));  // others may have been made since it was looked at first
  const Making making{*this, row.id, row.team_id};
  if (local) {
    node::VolumeRequest request{.volume = row.id,
                                .snapshot = std::move(from_snapshot),
                                .disk_bytes = row.disk_bytes,
                                .uid = row.posix_uid,
                                .gid = row.posix_gid};
    auto made = co_await with_deadline(kVolumeTimeout, node_.create_volume(std::move(request)));
    if (!made) {
      (void)co_await remove_disk(row.id);  // it may have been made after all
      co_return fail(std::move(made).error().note("making the volume"));
    }
  }
  ATOLL_FAULT_POINT("control.volume.disk_made");
  auto stored = co_await store_.run([&row](store::Store& store) { return store.put_volume(row); });
  ATOLL_FAULT_POINT("control.volume.recorded");
  if (!stored) {
    // A row that was written after all is removed too: nobody was promised it.
    (void)co_await store_.run([&row](store::Store& store) { return store.remove_volume(row.id); });
    if (local) {
      (void)co_await remove_disk(row.id);
    }
    co_return fail(std::move(stored).error().note("recording the volume"));
  }
  auto entry = std::make_shared<Entry>();
  entry->row = std::move(row);
  entries_.emplace(entry->row.id, entry);
  LOG_INFO("volume made", {"volume", entry->row.id}, {"from", entry->row.source_volume_id});
  co_return std::move(entry);
}

Task<> Volumes::put(Volume row) {
  co_return co_await store_.run([&row](store::Store& store) { return store.put_volume(row); });
}

// --- removing --------------------------------------------------------------------------------

Task<> Volumes::remove(std::string team_id, std::string id, bool force) {
  return shielded(remove_now(std::move(team_id), std::move(id), force));
}

Task<> Volumes::remove_now(std::string team_id, std::string id, bool force) {
  auto entry = find(team_id, id);
  if (!entry) {
    co_return ok();  // gone is gone
  }
  auto held = co_await with_deadline(kVolumeTimeout, hold(*entry));
  if (!held) {
    if ((*entry)->gone) {
      co_return ok();
    }
    co_return fail(std::move(held).error());
  }
  const auto users = sandboxes_.mounted_in(id);
  if (!users.empty() && !force) {
    std::string names;
    for (const std::string& user : users) {
      names += concat(names.empty() ? "" : ", ", user);
    }
    co_return fail(Code::kFailedPrecondition,
                   concat("volume ", id, " has active mounts in ", names,
                          "; delete these sandboxes first, or delete it with force"),
                   "volume_mounted");
  }
  (*entry)->gone = true;  // from here on nobody can begin to use it
  auto removed = co_await remove_held(*entry);
  (*entry)->gone = removed.has_value();
  co_return std::move(removed);
}

// REQUIRES: the entry is held.
Task<> Volumes::remove_held(EntryPointer entry) {
  const std::string id = entry->row.id;
  CO_TRY_DO(co_await sandboxes_.unmount(id));
  ATOLL_FAULT_POINT("control.volume.unmounted");
  CO_TRY_DO(co_await cells_.close(id));
  CO_TRY_DO(co_await store_.run([&id](store::Store& store) { return store.remove_volume(id); }));
  ATOLL_FAULT_POINT("control.volume.row_removed");
  entries_.erase(id);
  std::vector<std::string> moments;
  for (const auto& [snapshot_id, snapshot] : snapshots_) {
    if (snapshot.volume_id == id) {
      moments.push_back(snapshot_id);
    }
  }
  if (const auto backend = backends_.find(entry->row.backend); backend != backends_.end()) {
    backend->second->forget(id);
  }
  if (entry->row.backend == kLocalBackend) {
    (void)co_await remove_disk(id);
  }
  for (const std::string& moment : moments) {
    snapshots_.erase(moment);
    (void)co_await remove_disk_snapshot(moment);
  }
  LOG_INFO("volume removed", {"volume", id});
  co_return ok();
}

Task<> Volumes::remove_disk(std::string id) {
  auto removed = co_await with_deadline(kNodeTimeout, node_.remove_volume(id));
  if (!removed) {
    note_leftover("volume", id, removed.error());
  }
  co_return std::move(removed);
}

Task<> Volumes::remove_disk_snapshot(std::string id) {
  auto removed = co_await with_deadline(kNodeTimeout, node_.remove_snapshot(id));
  if (!removed) {
    note_leftover("snapshot", id, removed.error());
  }
  co_return std::move(removed);
}

// No row names it any more: run() tries again, or the next start.
void Volumes::note_leftover(std::string_view what, const std::string& id, const Error& error) {
  LOG_WARN("a disk that nobody needs stays for now", {"what", what}, {"id", id}, {"error", error});
  leftovers_ = true;
  deadlines_changed_.set();
}

// --- files -----------------------------------------------------------------------------------

FileDefaults Volumes::defaults(const PlaceRef& ref) const {
  const auto entry = find(ref.team_id, ref.id);
  const Volume row = entry ? (*entry)->row : Volume{};
  return {
      .user = concat("owner:", row.posix_uid, ":", row.posix_gid), .cwd = "/", .fixed_user = true};
}

Result<std::uint64_t> Volumes::room_bytes(const PlaceRef& ref) const {
  TRY(const auto entry, find(ref.team_id, ref.id));
  return entry->row.disk_bytes;
}

}  // namespace atl::control
