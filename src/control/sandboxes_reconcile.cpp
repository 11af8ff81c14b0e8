// Making rows and cells agree, and bringing dead cells back.
//
// A restart first raises the generation of the row, which stays `running`: a crash in the middle
// leaves a `running` row without a cell, which is what reconcile() repairs.
//
// One sandbox never keeps the others waiting: what takes long, such as bringing memory back from
// disk, and what does not work now, is left to settle_all().
#include <algorithm>
#include <map>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

// The node was not there or did not answer: nothing is known about the cell.
bool undecided(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kCancelled;
}

}  // namespace

Task<> Sandboxes::reconcile() {
  CO_TRY_DO(co_await refresh_templates());
  // Every entry is held before the cells are listed, so no operation runs between the two. Those in
  // the middle of one are looked at when it has ended.
  Repairs work;
  for (const auto& [id, entry] : entries_) {
    if (entry->busy) {
      unsettle(*entry);
    } else {
      work.holds.emplace_back(entry);
    }
  }
  CO_TRY(const auto cells, co_await with_deadline(kNodeTimeout, node_.list()));
  std::vector<std::string> orphans;
  for (const auto& cell : cells) {
    work.cells.emplace(cell.id, &cell);
    // A claim made meanwhile has its entry before it has its cell.
    if (!entries_.contains(cell.id) && !adopted_cells_.contains(cell.id)) {
      orphans.push_back(cell.id);
    }
  }
  ATOLL_FAULT_POINT("control.reconcile.listed");
  Scope repairing{co_await current_context()};
  for (std::size_t i = 0; i < std::min(work.holds.size(), kMaxRepairsAtOnce); ++i) {
    repairing.spawn("repair", repair_some(work));
  }
  CO_TRY_DO(co_await repairing.join());
  Report& report = work.report;
  ATOLL_FAULT_POINT("control.reconcile.repaired");
  CO_TRY_DO(co_await destroy_orphans(std::move(orphans), report));
  ATOLL_FAULT_POINT("control.reconcile.done");
  if (report.restarted + report.failed + report.removed + report.orphans > 0) {
    LOG_INFO("repaired what was left", {"adopted", report.adopted}, {"restarted", report.restarted},
             {"failed", report.failed}, {"removed", report.removed},
             {"orphans_destroyed", report.orphans});
  } else {
    LOG_DEBUG("rows and cells agree", {"sandboxes", report.adopted});
  }
  co_return ok();
}

Task<> Sandboxes::repair_some(Repairs& work) {
  while (work.next < work.holds.size()) {
    const Hold held{std::move(work.holds[work.next++])};
    const auto found = work.cells.find(held.entry()->row.id);
    const auto* cell = found == work.cells.end() ? nullptr : found->second;
    CO_TRY_DO(co_await repair(held.entry(), cell, Patience::kShort, work.report));
  }
  co_return ok();
}

// There may be many: cells that were prepared and not claimed before the process died. Nobody can
// claim them and nobody waits for their end, when there is somebody who sees to it.
Task<> Sandboxes::destroy_orphans(std::vector<std::string> ids, Report& report) {
  if (prepared_ != nullptr) {
    if (!ids.empty()) {
      LOG_INFO("cells without a sandbox are destroyed", {"count", ids.size()});
    }
    prepared_->destroy_orphans(std::move(ids));
    co_return ok();
  }
  Result<> outcome;
  Scope destroying{co_await current_context()};
  for (std::size_t i = 0; i < std::min(ids.size(), kMaxOrphansAtOnce); ++i) {
    destroying.spawn("orphans", destroy_some_orphans(ids, report, outcome));
  }
  CO_TRY_DO(co_await destroying.join());
  co_return std::move(outcome);
}

Task<> Sandboxes::destroy_some_orphans(std::vector<std::string>& ids, Report& report,
                                       Result<>& outcome) {
  while (!ids.empty() && outcome) {
    const std::string id = std::move(ids.back());
    ids.pop_back();
    auto destroyed = co_await node_.destroy({.id = id, .in_background = true});
    if (!destroyed && destroyed.error().code != Code::kNotFound) {
      outcome = fail(std::move(destroyed).error().note(concat("destroying ", id)));
      break;
    }
    ++report.orphans;
  }
  co_return ok();
}

// One sandbox that cannot be settled now must not keep the others waiting.
void Sandboxes::settle(Entry& entry, const Result<>& outcome) {
  if (!outcome) {
    LOG_WARN("a sandbox is not settled yet", {"sandbox", entry.row.id}, {"error", outcome.error()});
    unsettle(entry);
  }
}

// REQUIRES: the entry is held. What is not repaired with this is unsettled, or a deletion pending.
Task<> Sandboxes::repair(EntryPointer entry, const node::CellInfo* cell, Patience patience,
                         Report& report) {
  if (entry->unwanted || to_be_removed(entry->row.status)) {
    if (auto finished = co_await finish_deletion(entry); finished) {
      ++report.removed;
    }
    co_return ok();
  }
  switch (entry->row.status) {
    case SandboxStatus::kStarting:
    case SandboxStatus::kTerminating:
      co_return ok();
    case SandboxStatus::kRunning: {
      if (cell != nullptr && cell->running) {
        // A crash may have come between a change of the row and that of the cell.
        if (auto applied = co_await apply_limits(entry, entry->row.limits); !applied) {
          LOG_WARN("cannot apply the limits of a sandbox", {"sandbox", entry->row.id},
                   {"error", applied.error()});
        }
        CO_TRY_DO(co_await greet_cell(entry, *cell));
        if (cell->frozen) {
          settle(*entry, co_await with_deadline(kNodeTimeout, node_.thaw(entry->row.id)));
        }
        ++report.adopted;
        co_return ok();
      }
      lose_cell(*entry);
      if (patience == Patience::kShort && cell != nullptr && cell->dumped) {
        unsettle(*entry);
        co_return ok();
      }
      auto restarted = co_await restart(entry);
      if (!restarted && entry->row.status != SandboxStatus::kFailed) {
        settle(*entry, restarted);
        co_return ok();
      }
      ++(restarted ? report.restarted : report.failed);
      co_return ok();
    }
    case SandboxStatus::kPaused:
      if (cell != nullptr && cell->running) {
        CO_TRY_DO(co_await greet_cell(entry, *cell));
      } else {
        lose_cell(*entry);
      }
      entry->dumped = cell != nullptr && cell->dumped;
      if (!entry->paused_at) {
        entry->paused_at = clock_.now();
      }
      plan_dump(*entry);
      schedule(*entry, due_at(*entry));
      if (entry->guest_socket.empty() || cell->frozen) {
        ++report.adopted;
      } else if (patience == Patience::kShort) {
        unsettle(*entry);
      } else {
        settle(*entry, co_await with_deadline(kPauseTimeout, node_.freeze(entry->row.id)));
      }
      co_return ok();
    case SandboxStatus::kFailed:
      if (cell != nullptr && cell->running) {
        node::DestroyRequest request{.id = entry->row.id, .keep_upper = true};
        settle(*entry, co_await with_deadline(kNodeTimeout, node_.destroy(std::move(request))));
      }
      co_return ok();
  }
  co_return ok();
}

// A new cell on the old filesystem, with the processes it had when they are on disk. REQUIRES: the
// entry is held. When it fails for good, the row is `failed`; when the node did not answer, the row
// stays `running`.
Task<> Sandboxes::restart(EntryPointer entry) {
  const Flag restarting{entry->restarting};
  lose_cell(*entry);
  entry->dumped = false;
  entry->dump_at.reset();
  entry->paused_at.reset();
  store::Transition next{.status = SandboxStatus::kRunning,
                         .generation = entry->row.generation + 1};
  if (entry->row.status != SandboxStatus::kRunning) {
    rearm(*entry, next);
  }
  CO_TRY_DO(co_await change(*entry, std::move(next), store::Durability::kQuick));
  ATOLL_FAULT_POINT("control.restart.recorded");
  node::DestroyRequest clear{.id = entry->row.id, .keep_upper = true, .keep_dump = true};
  auto cleared = co_await with_deadline(kNodeTimeout, node_.destroy(std::move(clear)));
  if (!cleared && cleared.error().code != Code::kNotFound) {
    co_return fail(std::move(cleared).error().note(concat("clearing ", entry->row.id)));
  }
  ATOLL_FAULT_POINT("control.restart.cleared");
  node::CreateRequest request{.id = entry->row.id,
                              .hostname = entry->row.id,
                              .layers = entry->row.layers,
                              .limits = node_limits(entry->row.limits),
                              .existing_upper = true,
                              .restore_memory = true,
                              .ephemeral_tmp = entry->row.ephemeral_tmp,
                              .mounts = node_mounts(entry->row.mounts)};
  auto cell = co_await with_deadline(kPauseTimeout, node_.create(std::move(request)));
  if (!cell) {
    Error error = std::move(cell).error().note(concat("restarting ", entry->row.id));
    if (!undecided(error)) {
      CO_TRY_DO(co_await mark_failed(*entry, error.message));
    }
    co_return fail(std::move(error));
  }
  ATOLL_FAULT_POINT("control.restart.started");
  entry->from_memory = cell->restored;
  entry->restart_reason = cell->reason;
  CO_TRY_DO(co_await greet_cell(entry, *std::move(cell)));
  restarts_.add();
  LOG_WARN("sandbox started again", {"sandbox", entry->row.id},
           {"from", entry->from_memory ? "memory" : "filesystem"},
           {"generation", entry->row.generation});
  co_return ok();
}

Task<> Sandboxes::mark_failed(Entry& entry, std::string why) {
  LOG_ERROR("sandbox failed", {"sandbox", entry.row.id}, {"why", why});
  store::Transition transition{.status = SandboxStatus::kFailed,
                               .generation = entry.row.generation,
                               .failure = std::move(why)};
  CO_TRY_DO(co_await change(entry, std::move(transition), store::Durability::kQuick));
  failures_.add();
  lose_cell(entry);
  co_return ok();
}

Task<> Sandboxes::on_cell_died(std::string id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    if (prepared_ != nullptr) {
      prepared_->on_died(id);
    }
    co_return ok();
  }
  const EntryPointer entry = found->second;
  CO_TRY(const auto held, co_await hold(entry));
  if (entry->gone || entry->row.status != SandboxStatus::kRunning) {
    co_return ok();
  }
  co_return co_await shielded(restart_until_decided(entry));
}

// REQUIRES: the entry is held.
Task<> Sandboxes::restart_until_decided(EntryPointer entry) {
  CO_TRY(const auto cells, co_await with_deadline(kNodeTimeout, node_.list()));
  for (const auto& cell : cells) {
    if (cell.id == entry->row.id && cell.running) {
      co_return ok();  // the news is old: it runs again already
    }
  }
  Duration pause = kNodeFirstRetry;
  for (;;) {
    const UnixMillis now = clock_.now();
    auto& restarts = entry->restarts;
    while (!restarts.empty() && restarts.front() <= now - kRestartWindowMs) {
      restarts.pop_front();
    }
    if (restarts.size() >= kMaxRestarts) {
      co_return co_await mark_failed(
          *entry, concat("its agent died more than ", kMaxRestarts, " times in a minute"));
    }
    restarts.push_back(now);
    auto restarted = co_await restart(entry);
    if (restarted || entry->row.status != SandboxStatus::kRunning ||
        restarted.error().code == Code::kUnavailable) {
      // When the node is gone, the next session reconciles.
      co_return std::move(restarted);
    }
    CO_TRY_DO(co_await sleep_for(pause));
    pause = std::min(pause * 2, kNodeLastRetry);
  }
}

}  // namespace atl::control
