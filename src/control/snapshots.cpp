#include "control/snapshots.h"

#include <algorithm>
#include <cstdlib>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/snapshot_making.h"

namespace atl::control {
namespace {

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

std::unexpected<Error> no_such_snapshot(std::string_view id) {
  return fail(Code::kNotFound, concat("there is no snapshot \"", to_valid_utf8(id), "\""),
              "snapshot_not_found");
}

Result<> validate(const SnapshotRequest& request, UnixMillis now) {
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

StateRef state_ref(std::string id) {
  const bool snapshot = id.starts_with(kSnapshotPrefix);
  return {snapshot ? StateRef::Kind::kSnapshot : StateRef::Kind::kSandbox, std::move(id)};
}

bool is_template_start(std::string_view snapshot_id) {
  return snapshot_id.starts_with(kStartPrefix);
}

Task<> Snapshots::start() {
  CO_TRY(auto rows,
         co_await store_.run([](store::Store& store) { return store.list_snapshots(); }));
  for (auto& row : rows) {
    std::string id = row.id;
    snapshots_.emplace(std::move(id), std::move(row));
  }
  sandboxes_.on_used_layers([this] { return used_layers(); });
  sandboxes_.on_template_needed([this](std::string_view name, std::string_view besides) {
    return std::ranges::any_of(snapshots_, [&](const auto& item) {
      return item.second.template_name == name && item.first != besides;
    });
  });
  auto swept = co_await sweep();
  if (!swept && swept.error().code == Code::kUnimplemented) {
    co_return ok();  // this node makes none
  }
  co_return std::move(swept);
}

// Disks on the node that no row names and nobody is about to: a process was killed, or an answer
// came too late for whoever asked.
Task<> Snapshots::sweep() {
  unswept_ = false;
  CO_TRY(const auto disks, co_await with_deadline(kNodeTimeout, node_.list_snapshots()));
  for (const std::string& id : disks) {
    unswept_ = unswept_ || making_.contains(id);  // it may never get a row
    if (!snapshots_.contains(id) && !making_.contains(id) && !held_.contains(id) &&
        (id.starts_with(kSnapshotPrefix) || id.starts_with(kForkPrefix))) {
      LOG_INFO("removing a snapshot that nobody knows", {"snapshot", id});
      CO_TRY_DO(co_await remove_from_node(id));
    }
  }
  co_return ok();
}

std::set<std::string> Snapshots::used_layers() const {
  std::set<std::string> layers;
  for (const auto& [id, snapshot] : snapshots_) {
    layers.insert(snapshot.layers.begin(), snapshot.layers.end());
  }
  for (const auto& [id, held] : held_) {
    layers.insert(held.snapshot.layers.begin(), held.snapshot.layers.end());
  }
  return layers;
}

Result<Snapshot> Snapshots::get(std::string_view team_id, std::string_view id) const {
  return find(team_id, id, false);
}

Result<Snapshot> Snapshots::find(std::string_view team_id, std::string_view id,
                                 bool template_start) const {
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end() || found->second.team_id != team_id ||
      is_template_start(id) != template_start) {
    return no_such_snapshot(id);
  }
  return found->second;
}

Result<std::vector<Snapshot>> Snapshots::list(std::string_view team_id,
                                              std::string_view sandbox_id) const {
  TRY_DO(sandboxes_.get(team_id, sandbox_id));
  std::vector<Snapshot> found;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.team_id == team_id && snapshot.sandbox_id == sandbox_id &&
        !is_template_start(id)) {
      found.push_back(snapshot);
    }
  }
  std::ranges::sort(found, {}, [](const Snapshot& snapshot) {
    return std::pair{snapshot.created_at, snapshot.id};
  });
  return found;
}

std::vector<Snapshot> Snapshots::list_all(std::string_view team_id) const {
  std::vector<Snapshot> found;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.team_id == team_id && !is_template_start(id)) {
      found.push_back(snapshot);
    }
  }
  std::ranges::sort(found, {}, [](const Snapshot& snapshot) {
    return std::pair{snapshot.created_at, snapshot.id};
  });
  return found;
}

std::vector<Snapshot> Snapshots::template_starts() const {
  std::vector<Snapshot> found;
  for (auto at = snapshots_.lower_bound(kStartPrefix);
       at != snapshots_.end() && is_template_start(at->first); ++at) {
    found.push_back(at->second);
  }
  return found;
}

Task<SnapshotCreated> Snapshots::create(std::string team_id, std::string sandbox_id,
                                        SnapshotRequest request) {
  return shielded(create_once(std::move(team_id), std::move(sandbox_id), std::move(request)));
}

Task<SnapshotCreated> Snapshots::create_once(std::string team_id, std::string sandbox_id,
                                             SnapshotRequest request) {
  std::optional<OnceKeys::Entry> once;
  if (request.once) {
    CO_TRY(once, co_await sandboxes_.once_keys().enter(team_id, request.once->key,
                                                       request.once->body_sha256));
  }
  SnapshotCreated created;
  if (once && once->remembered) {
    created.remembered = std::move(once->remembered);
    co_return std::move(created);
  }
  CO_TRY(created.snapshot,
         co_await create_now(std::move(team_id), std::move(sandbox_id), std::move(request)));
  co_return std::move(created);
}

Result<> Snapshots::check_new(std::string_view team_id, const SnapshotRequest& request) const {
  TRY_DO(validate(request, clock_.now()));
  // Those that are being made count: no two get the last place.
  const auto of_team = static_cast<std::size_t>(
      std::ranges::count_if(snapshots_,
                            [&](const auto& item) { return item.second.team_id == team_id; }) +
      std::ranges::count_if(making_, [&](const auto& item) {
        return item.second == team_id && item.first.starts_with(kSnapshotPrefix);
      }));
  if (of_team >= kMaxSnapshotsPerTeam) {
    return fail(Code::kResourceExhausted,
                concat("there are already ", of_team, " snapshots; delete some first"),
                "quota_exceeded");
  }
  return {};
}

Task<Snapshot> Snapshots::create_now(std::string team_id, std::string sandbox_id,
                                     SnapshotRequest request) {
  CO_TRY_DO(check_new(team_id, request));
  const std::string id =
      concat(request.template_start ? kStartPrefix : kSnapshotPrefix, random_label(16));
  const Making making{making_, id, team_id};
  auto row = co_await sandboxes_.snapshot_disk(
      team_id, {.id = sandbox_id, .snapshot = id, .memory = request.memory});
  if (!row) {
    (void)co_await remove_from_node(id);  // it may be there all the same
    co_return fail(std::move(row).error());
  }
  ATOLL_FAULT_POINT("control.snapshot.taken");
  Snapshot snapshot{.id = id,
                    .team_id = row->team_id,
                    .sandbox_id = row->id,
                    .name = std::move(request.name),
                    .description = std::move(request.description),
                    .template_name = row->template_name,
                    .layers = row->layers,
                    .env = row->env,
                    .limits = row->limits,
                    .ephemeral_tmp = row->ephemeral_tmp,
                    .created_at = clock_.now(),
                    .expires_at = request.expires_at};
  CO_TRY_DO(co_await record(snapshot, request.once));
  ATOLL_FAULT_POINT("control.snapshot.recorded");
  snapshots_.emplace(id, snapshot);
  deadlines_changed_.set();
  LOG_INFO("snapshot taken", {"snapshot", id}, {"sandbox", snapshot.sandbox_id});
  co_return std::move(snapshot);
}

Task<> Snapshots::record(const Snapshot& snapshot, const std::optional<SnapshotOnce>& once) {
  std::optional<store::ClaimKey> key;
  if (once) {
    key = store::ClaimKey{.team_id = snapshot.team_id,
                          .key = once->key,
                          .body_sha256 = once->body_sha256,
                          .answer = once->remember(snapshot),
                          .created_at = clock_.now()};
  }
  auto stored = co_await store_.run(
      [&](store::Store& store) { return store.insert_snapshot(snapshot, key); });
  if (stored) {
    co_return ok();
  }
  // A row that was written after all is found at the next start, with or without its disk.
  (void)co_await remove_from_node(snapshot.id);
  (void)co_await store_.run([&](store::Store& store) -> Result<> {
    if (key) {
      TRY_DO(store.remove_claim_key(key->team_id, key->key));
    }
    return store.remove_snapshot(snapshot.id, snapshot.created_at);
  });
  co_return fail(std::move(stored).error().note("recording the snapshot"));
}

Task<> Snapshots::remove(std::string team_id, std::string id) {
  CO_TRY_DO(get(team_id, id));
  co_return co_await shielded(remove_now(std::move(id)));
}

Task<> Snapshots::remove_start(std::string id) {
  if (is_template_start(id) && snapshots_.contains(id)) {
    CO_TRY_DO(co_await shielded(remove_now(std::move(id))));
  }
  co_return ok();
}

Task<> Snapshots::remove_now(std::string id) {
  const UnixMillis now = clock_.now();
  CO_TRY_DO(co_await store_.run(
      [&id, now](store::Store& store) { return store.remove_snapshot(id, now); }));
  ATOLL_FAULT_POINT("control.snapshot_remove.recorded");
  snapshots_.erase(id);
  LOG_INFO("snapshot removed", {"snapshot", id});
  if (const auto held = held_.find(id); held != held_.end()) {
    held->second.doomed = true;
    co_return ok();
  }
  // Nobody can name it any more; a disk that stays is found by the sweep.
  if (auto removed = co_await remove_from_node(id); !removed) {
    LOG_WARN("the disk of a deleted snapshot stays for now", {"snapshot", id},
             {"error", removed.error()});
  }
  ATOLL_FAULT_POINT("control.snapshot_remove.finished");
  co_return ok();
}

Task<> Snapshots::remove_from_node(std::string id) {
  auto removed = co_await with_deadline(kNodeTimeout, node_.remove_snapshot(std::move(id)));
  if (!removed) {
    unswept_ = true;
    deadlines_changed_.set();
  }
  co_return removed;
}

Task<> Snapshots::run() {
  UnixMillis swept_at = clock_.now();
  for (;;) {
    CO_TRY_DO(co_await expire_due());
    // Also when the clock was set back.
    if (const UnixMillis now = clock_.now();
        unswept_ || std::abs(now - swept_at) >= kSnapshotSweepMs) {
      swept_at = now;
      if (auto swept = co_await sweep(); !swept) {
        unswept_ = swept.error().code != Code::kUnimplemented;
        LOG_DEBUG("could not look for lost snapshots", {"error", swept.error()});
      }
    }
    deadlines_changed_.clear();
    auto waited = co_await with_deadline(std::chrono::milliseconds{next_wait_ms()},
                                         wait_for(deadlines_changed_));
    if (!waited && waited.error().code == Code::kCancelled) {
      co_return ok();
    }
  }
}

UnixMillis Snapshots::next_wait_ms() const {
  UnixMillis wait_ms = unswept_ ? kSweepRetryMs : kMaxExpiryWaitMs;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.expires_at) {
      wait_ms = std::min(wait_ms, *snapshot.expires_at - clock_.now());
    }
  }
  return std::max<UnixMillis>(wait_ms, 1);
}

Task<> Snapshots::expire_due() {
  const UnixMillis now = clock_.now();
  std::vector<std::pair<std::string, std::string>> over;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.expires_at && *snapshot.expires_at <= now) {
      over.emplace_back(snapshot.team_id, id);
    }
  }
  for (const auto& [team_id, id] : over) {
    auto removed = co_await remove(team_id, id);
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
