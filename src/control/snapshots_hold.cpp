// States that somebody works with for a while, and snapshots of what is no sandbox.
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/snapshot_making.h"
#include "control/snapshots.h"

namespace atl::control {

Task<Snapshot> Snapshots::adopt(std::string cell_id, Snapshot row, SnapshotRequest request) {
  return shielded(adopt_now(std::move(cell_id), std::move(row), std::move(request)));
}

Task<Snapshot> Snapshots::adopt_now(std::string cell_id, Snapshot row, SnapshotRequest request) {
  CO_TRY_DO(check_new(row.team_id, request));
  row.id = concat(kSnapshotPrefix, random_label(16));
  row.name = std::move(request.name);
  row.description = std::move(request.description);
  row.expires_at = request.expires_at;
  row.created_at = clock_.now();
  const Making making{making_, row.id, row.team_id};
  auto taken = co_await with_deadline(
      kPauseTimeout, node_.snapshot({.id = std::move(cell_id), .snapshot = row.id}));
  if (!taken) {
    (void)co_await remove_from_node(row.id);  // it may be there all the same
    co_return fail(std::move(taken).error());
  }
  CO_TRY_DO(co_await record(row, std::nullopt));
  snapshots_.emplace(row.id, row);
  deadlines_changed_.set();
  LOG_INFO("snapshot imported", {"snapshot", row.id});
  co_return std::move(row);
}

Task<Snapshot> Snapshots::hold(std::string team_id, StateRef ref) {
  if (ref.kind == StateRef::Kind::kSandbox) {
    co_return co_await shielded(hold_moment(std::move(team_id), std::move(ref.id)));
  }
  CO_TRY(Snapshot snapshot, find(team_id, ref.id, ref.kind == StateRef::Kind::kTemplateStart));
  Held& held = held_[snapshot.id];
  held.snapshot = snapshot;
  ++held.count;
  co_return std::move(snapshot);
}

Task<Snapshot> Snapshots::hold_moment(std::string team_id, std::string sandbox_id) {
  const std::string id = concat(kForkPrefix, random_label(16));
  const Making making{making_, id, team_id};
  auto row = co_await sandboxes_.snapshot_disk(team_id, {.id = sandbox_id, .snapshot = id});
  if (!row) {
    (void)co_await remove_from_node(id);  // it may be there all the same
    co_return fail(std::move(row).error());
  }
  Snapshot moment{.id = id,
                  .team_id = row->team_id,
                  .sandbox_id = row->id,
                  .template_name = row->template_name,
                  .layers = row->layers,
                  .env = row->env,
                  .limits = row->limits,
                  .ephemeral_tmp = row->ephemeral_tmp,
                  .created_at = clock_.now()};
  held_.emplace(id, Held{moment, 1, true});
  co_return std::move(moment);
}

Task<> Snapshots::release(std::string id) {
  return shielded(release_now(std::move(id)));
}

Task<> Snapshots::release_now(std::string id) {
  const auto found = held_.find(id);
  if (found == held_.end() || --found->second.count > 0) {
    co_return ok();
  }
  const bool doomed = found->second.doomed;
  held_.erase(found);
  if (!doomed) {
    co_return ok();
  }
  auto removed = co_await remove_from_node(id);
  if (!removed) {
    LOG_WARN("a moment of a sandbox stays until the next sweep", {"snapshot", id},
             {"error", removed.error()});
  }
  co_return std::move(removed);
}

// What is begun as a snapshot needs it until the end: processes end for a restore long before the
// disk is read.
Task<Sandbox> Snapshots::restore(std::string team_id, std::string sandbox_id,
                                 std::string snapshot_id, bool force) {
  return shielded(
      restore_now(std::move(team_id), std::move(sandbox_id), std::move(snapshot_id), force));
}

Task<Sandbox> Snapshots::restore_now(std::string team_id, std::string sandbox_id,
                                     std::string snapshot_id, bool force) {
  CO_TRY(const Snapshot snapshot,
         co_await hold(team_id, {StateRef::Kind::kSnapshot, std::move(snapshot_id)}));
  auto restored = co_await sandboxes_.restore_disk(
      std::move(team_id), std::move(sandbox_id),
      {.snapshot_id = snapshot.id, .layers = snapshot.layers}, force);
  (void)co_await release(snapshot.id);
  co_return std::move(restored);
}

Task<ClaimAnswer> Snapshots::claim(std::string snapshot_id, ClaimRequest request) {
  return shielded(claim_now(std::move(snapshot_id), std::move(request)));
}

Task<ClaimAnswer> Snapshots::claim_now(std::string snapshot_id, ClaimRequest request) {
  const auto held = std::make_shared<bool>(false);
  request.complete = [this, snapshot_id, held](ClaimRequest asked) {
    return begin_as_snapshot(snapshot_id, held, std::move(asked));
  };
  auto claimed = co_await sandboxes_.claim_all(std::move(request));
  if (*held) {
    (void)co_await release(std::move(snapshot_id));
  }
  co_return std::move(claimed);
}

Task<ClaimRequest> Snapshots::begin_as_snapshot(std::string snapshot_id, std::shared_ptr<bool> held,
                                                ClaimRequest request) {
  CO_TRY(const Snapshot snapshot,
         co_await hold(request.team_id, {StateRef::Kind::kSnapshot, std::move(snapshot_id)}));
  *held = true;
  request.template_name = snapshot.template_name;
  request.origin = Origin{.snapshot_id = snapshot.id,
                          .layers = snapshot.layers,
                          .limits = snapshot.limits,
                          .parent_id = snapshot.sandbox_id,
                          .ephemeral_tmp = snapshot.ephemeral_tmp,
                          .descent = {.parent_id = snapshot.id, .cause = "claim"},
                          .memory = request.memory};
  request.env.insert(snapshot.env.begin(), snapshot.env.end());  // what is asked for wins
  co_return std::move(request);
}

}  // namespace atl::control
