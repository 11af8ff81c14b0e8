// The part of Sandboxes that nobody asks for: expiry, deletions to finish, the node's events.
#include "base/log.h"
#include "base/scope.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

bool cancelled(const Result<>& result) {
  return !result && result.error().code == Code::kCancelled;
}

// Rows in these states are on their way out.
bool to_be_removed(SandboxStatus status) {
  return status == SandboxStatus::kTerminating || status == SandboxStatus::kStarting;
}

}  // namespace

Task<> Sandboxes::run() {
  Scope scope{co_await current_context()};
  scope.spawn("expiry", expire_due(scope));
  scope.spawn("deletions", retry_deletions());
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

Task<> Sandboxes::expire_due(Scope& scope) {
  for (;;) {
    const UnixMillis now = clock_.now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      const std::string id = deadlines_.begin()->second;
      deadlines_.erase(deadlines_.begin());
      scope.spawn("expire", expire_one(id));
    }
    deadlines_changed_.clear();
    Result<> waited;
    if (deadlines_.empty()) {
      waited = co_await wait_for(deadlines_changed_);
    } else {
      const auto wait_ms = std::min(deadlines_.begin()->first - now, kMaxExpiryWaitMs);
      waited =
          co_await with_deadline(std::chrono::milliseconds{wait_ms}, wait_for(deadlines_changed_));
    }
    if (cancelled(waited)) {
      co_return ok();
    }
  }
}

Task<> Sandboxes::expire_one(std::string id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    co_return ok();
  }
  LOG_INFO("sandbox expired", {"sandbox", id});
  const std::string team_id = found->second->row.team_id;
  auto removed = co_await remove(team_id, id);
  if (removed || removed.error().code == Code::kNotFound) {
    co_return ok();
  }
  LOG_WARN("could not remove an expired sandbox yet", {"sandbox", id}, {"error", removed.error()});
  const auto still = entries_.find(id);
  if (still != entries_.end() && !to_be_removed(still->second->row.status)) {
    constexpr std::int64_t kRetryMs = 1000;
    deadlines_.emplace(clock_.now() + kRetryMs, id);
    deadlines_changed_.set();
  }
  co_return ok();
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
      if (!entry->busy && to_be_removed(entry->row.status)) {
        pending.push_back(entry);
      }
    }
    for (const auto& entry : pending) {
      CO_TRY(const auto held, co_await hold(entry));
      if (entry->gone || !to_be_removed(entry->row.status)) {
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

}  // namespace atl::control
