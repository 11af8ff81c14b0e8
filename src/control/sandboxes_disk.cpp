// What Snapshots does to the disk of one sandbox, under that sandbox's lock.
#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {

Task<Sandbox> Sandboxes::snapshot_disk(std::string team_id, node::SnapshotRequest request,
                                       std::function<Task<>()> also) {
  const std::string id = request.id;
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(hold_patience(*entry), hold(entry)));
  CO_TRY_DO(refuse_unchangeable(*entry));
  const Flag pausing{entry->pausing};
  bool stands = false;
  if (also) {
    CO_TRY(stands, co_await stand_still(entry));
  }
  auto taken = co_await with_deadline(kPauseTimeout, node_.snapshot(std::move(request)));
  Result<> others;
  if (taken && also) {
    others = co_await also();
  }
  if (stands) {
    (void)co_await move_on(entry);
  }
  if (!taken) {
    co_return fail(std::move(taken).error().note(concat("taking a snapshot of ", id)));
  }
  CO_TRY_DO(std::move(others));
  LOG_INFO("disk snapshotted", {"sandbox", id}, {"stopped_us", taken->stopped_nanoseconds / 1000});
  co_return view(*entry);
}

// Whether it was made to. Killed meanwhile: a `running` row with a frozen cell goes on. REQUIRES:
// the entry is held.
Task<bool> Sandboxes::stand_still(EntryPointer entry) {
  if (entry->row.status != SandboxStatus::kRunning || entry->guest_socket.empty()) {
    co_return false;
  }
  auto frozen = co_await with_deadline(kPauseTimeout, node_.freeze(entry->row.id));
  if (!frozen && frozen.error().code == Code::kUnimplemented) {
    co_return false;
  }
  if (!frozen) {
    (void)co_await move_on(entry);
    co_return fail(std::move(frozen).error().note(concat("holding ", entry->row.id, " still")));
  }
  co_return true;
}

Task<> Sandboxes::move_on(EntryPointer entry) {
  auto thawed = co_await with_deadline(kNodeTimeout, node_.thaw(entry->row.id));
  if (!thawed) {
    LOG_WARN("a sandbox still stands still after its snapshot", {"sandbox", entry->row.id},
             {"error", thawed.error()});
    unsettle(*entry);
  }
  co_return ok();
}

Task<Sandbox> Sandboxes::restore_disk(std::string team_id, std::string id, DiskMoment moment,
                                      bool force) {
  return shielded(restore_disk_now(std::move(team_id), std::move(id), std::move(moment), force));
}

Task<Sandbox> Sandboxes::restore_disk_now(std::string team_id, std::string id, DiskMoment moment,
                                          bool force) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(hold_patience(*entry), hold(entry)));
  CO_TRY_DO(refuse_unchangeable(*entry));
  if (moment.layers != entry->row.layers) {
    co_return fail(Code::kFailedPrecondition,
                   concat("the snapshot stands on another template than sandbox ", id,
                          "; claim a new sandbox from it instead"),
                   "other_template");
  }
  const bool running = entry->row.status == SandboxStatus::kRunning;
  if (running && !force) {
    co_return fail(Code::kFailedPrecondition,
                   concat("sandbox ", id, " is running; pause it first, or restore with force"),
                   "sandbox_running");
  }
  const Flag pausing{entry->pausing};
  auto restored = co_await exchange_disk(entry, moment);
  // Its row said `running` all the time: whoever dies meanwhile leaves a sandbox that starts again
  // from the disk it has then.
  if (running) {
    if (auto restarted = co_await restart(entry); !restarted) {
      if (entry->row.status == SandboxStatus::kRunning) {
        unsettle(*entry);
      }
      co_return fail(std::move(restarted).error().note(concat("starting ", id, " again")));
    }
    schedule(*entry, due_at(*entry));
  }
  ATOLL_FAULT_POINT("control.restore.resumed");
  if (!restored) {
    co_return fail(std::move(restored).error().note(concat("restoring ", id)));
  }
  co_return view(*entry);
}

// REQUIRES: the entry is held.
Task<> Sandboxes::exchange_disk(EntryPointer entry, DiskMoment moment) {
  const std::string id = entry->row.id;
  // Processes of another moment have no business on this disk.
  if (entry->row.status == SandboxStatus::kPaused) {
    CO_TRY_DO(co_await pause_held(entry, PauseMemory::kDrop));
  } else {
    CO_TRY_DO(co_await end_cell(entry));
  }
  ATOLL_FAULT_POINT("control.restore.stopped");
  node::SnapshotRequest request{
      .id = id, .snapshot = moment.snapshot_id, .disk_bytes = entry->row.limits.disk_bytes};
  CO_TRY_DO(co_await with_deadline(kPauseTimeout, node_.restore(std::move(request))));
  ATOLL_FAULT_POINT("control.restore.exchanged");
  LOG_INFO("disk restored", {"sandbox", id}, {"snapshot", moment.snapshot_id});
  const store::Relative::Restore note{moment.snapshot_id, clock_.now()};
  auto noted =
      co_await store_.run([&](store::Store& store) { return store.note_restore(id, note); });
  if (!noted) {
    LOG_WARN("a restore is missing in the tree", {"sandbox", id}, {"error", noted.error()});
  }
  co_return ok();
}

}  // namespace atl::control
