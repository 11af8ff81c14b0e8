// The part of Sandboxes that nobody asks for: deletions to finish, the node's events.
#include <algorithm>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

}  // namespace

Task<> Sandboxes::run() {
  Scope scope{co_await current_context()};
  scope.spawn("expiry", expire_due(scope));
  scope.spawn("deletions", retry_deletions());
  scope.spawn("clock", save_moved_deadlines());
  scope.spawn("settle", settle_all());
  scope.spawn("usage", sample_all());
  scope.spawn("memory", dump_under_pressure());
  auto ended = co_await keep_node_session();
  set_ready(false);
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

// Each session watches first and lists then, so no death falls between the two.
Task<> Sandboxes::keep_node_session() {
  Duration pause = kNodeFirstRetry;
  for (;;) {
    Scope session{co_await current_context()};
    Event lost;
    session.spawn("node events", read_node_events(session, lost));
    auto agreed = co_await shielded(reconcile());
    Result<> waited;
    if (agreed) {
      set_ready(true);
      pause = kNodeFirstRetry;
      waited = co_await wait_for(lost);
    } else {
      LOG_WARN("cannot reconcile with the node", {"error", agreed.error()});
    }
    set_ready(false);
    if (waited && prepared_ != nullptr) {
      prepared_->on_node_lost();
    }
    (void)co_await session.cancel_and_join();
    CO_TRY_DO(std::move(waited));
    CO_TRY_DO(co_await sleep_for(pause));
    pause = std::min(pause * 2, kNodeLastRetry);
  }
}

Task<> Sandboxes::read_node_events(Scope& scope, Event& lost) {
  for (;;) {
    auto event = co_await node_.next_event();
    if (!event) {
      if (event.error().code != Code::kCancelled) {
        LOG_WARN("lost the node", {"error", event.error()});
        lost.set();
      }
      co_return ok();
    }
    if (event->kind == node::Event::Kind::kCellDied) {
      scope.spawn("restart", on_cell_died(event->id));
      continue;
    }
    if (event->kind == node::Event::Kind::kTemplateReady) {
      CO_TRY_DO(co_await refresh_templates());
    }
    templates_.note_builtin(*event);
    if (template_event_) {
      template_event_(*event);
    }
  }
}

// Deletions that could not be finished at once: the row says so, and this goes on until it is gone.
Task<> Sandboxes::retry_deletions() {
  Duration pause = kNodeFirstRetry;
  for (;;) {
    CO_TRY_DO(co_await wait_for(deletion_pending_));
    CO_TRY_DO(co_await sleep_for(pause));
    deletion_pending_.clear();
    pause = std::min(pause * 2, kNodeLastRetry);
    std::vector<EntryPointer> pending;
    for (const auto& [id, entry] : entries_) {
      if (!entry->busy && (entry->unwanted || to_be_removed(entry->row.status))) {
        pending.push_back(entry);
      }
    }
    for (const auto& entry : pending) {
      CO_TRY(const auto held, co_await hold(entry));
      if (entry->gone || !(entry->unwanted || to_be_removed(entry->row.status))) {
        continue;
      }
      if (auto finished = co_await shielded(finish_deletion(entry)); finished) {
        LOG_INFO("finished a deletion", {"sandbox", entry->row.id});
      }
    }
    if (!deletion_pending_.is_set()) {
      pause = kNodeFirstRetry;
    }
  }
}

void Sandboxes::unsettle(Entry& entry) {
  entry.unsettled = true;
  settling_pending_.set();
}

// Sandboxes whose row and cell may differ because the node did not answer in time, or because that
// takes longer than a start may: made to agree as at a start, until it works.
Task<> Sandboxes::settle_all() {
  Duration pause = kNodeFirstRetry;
  for (;;) {
    CO_TRY_DO(co_await wait_for(settling_pending_));
    CO_TRY_DO(co_await sleep_for(pause));
    settling_pending_.clear();
    CO_TRY(const bool settled, co_await settle_once());
    if (settled) {
      pause = kNodeFirstRetry;
      continue;
    }
    settling_pending_.set();
    pause = std::min(pause * 2, kNodeLastRetry);
  }
}

// Whether all are settled.
Task<bool> Sandboxes::settle_once() {
  Settling work;
  for (const auto& [id, entry] : entries_) {
    if (entry->unsettled) {
      work.entries.push_back(entry);
    }
  }
  Scope scope{co_await current_context()};
  for (std::size_t i = 0; i < std::min(work.entries.size(), kMaxRepairsAtOnce); ++i) {
    scope.spawn("settle", settle_some(work));
  }
  CO_TRY_DO(co_await scope.join());
  co_return work.all;
}

Task<> Sandboxes::settle_some(Settling& work) {
  while (work.next < work.entries.size()) {
    const EntryPointer entry = work.entries[work.next++];
    if (entry->busy) {
      work.all = false;
      continue;
    }
    const Hold held{entry};
    auto settled = co_await shielded(settle_held(entry));
    if (!settled && settled.error().code == Code::kCancelled) {
      co_return std::move(settled);
    }
    if (!settled) {
      LOG_WARN("cannot settle a sandbox yet", {"sandbox", entry->row.id},
               {"error", settled.error()});
      work.all = false;
    }
  }
  co_return ok();
}

// REQUIRES: the entry is held.
Task<> Sandboxes::settle_held(EntryPointer entry) {
  if (entry->gone || !entry->unsettled) {
    co_return ok();
  }
  CO_TRY(const auto cells, co_await with_deadline(kNodeTimeout, node_.list()));
  const auto cell = std::ranges::find(cells, entry->row.id, &node::CellInfo::id);
  entry->unsettled = false;
  Report report;
  CO_TRY_DO(
      co_await repair(entry, cell == cells.end() ? nullptr : &*cell, Patience::kLong, report));
  if (entry->unsettled) {
    co_return fail(Code::kUnavailable, concat("sandbox ", entry->row.id, " is not settled"));
  }
  co_return ok();
}

}  // namespace atl::control
