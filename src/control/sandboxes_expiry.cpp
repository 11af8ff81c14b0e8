// What becomes of sandboxes whose time is over: one timer for all of them.
//
// A sandbox has at most one place in deadlines_, which is never after the moment it is due. Use
// moves that moment without moving the place: the timer looks again when it gets there, so a busy
// sandbox costs nothing per call.
#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {
namespace {

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

std::optional<UnixMillis> idle_due_at(const Sandbox& row, UnixMillis last_used_at) {
  return deadline_after(last_used_at, row.idle_ttl_seconds);
}

}  // namespace

Sandboxes::Use::Use(Sandboxes& owner, EntryPointer entry)
    : owner_(&owner), entry_(std::move(entry)) {
  ++entry_->uses;
}

Sandboxes::Use::~Use() {
  if (entry_ == nullptr) {
    return;
  }
  --entry_->uses;
  entry_->last_used_at = owner_->now();
  const auto due = due_at(*entry_);
  if (due && (!entry_->scheduled_at || *due < *entry_->scheduled_at)) {
    owner_->schedule(*entry_, due);
  }
}

std::optional<Sandboxes::Use> Sandboxes::use(std::string_view team_id, std::string_view id) {
  auto entry = find(team_id, id);
  if (!entry) {
    return std::nullopt;
  }
  return std::optional<Use>{std::in_place, *this, *std::move(entry)};
}

std::optional<UnixMillis> Sandboxes::idle_expires_at(std::string_view id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return std::nullopt;
  }
  const Entry& entry = *found->second;
  return idle_due_at(entry.row, entry.uses > 0 ? clock_.now() : entry.last_used_at);
}

std::optional<UnixMillis> Sandboxes::due_at(const Entry& entry) {
  std::optional<UnixMillis> due;
  if (entry.gone || entry.unwanted || to_be_removed(entry.row.status)) {
    return due;
  }
  if (entry.row.status != SandboxStatus::kRunning) {
    // The others pause, and this one stands still.
    due = entry.row.hard_expires_at;
    return entry.dump_at && (!due || *entry.dump_at < *due) ? entry.dump_at : due;
  }
  const auto idle = entry.uses > 0 ? std::nullopt : idle_due_at(entry.row, entry.last_used_at);
  for (const auto& each : {entry.row.expires_at, entry.row.hard_expires_at, idle}) {
    if (each && (!due || *each < *due)) {
      due = each;
    }
  }
  return due;
}

void Sandboxes::schedule(Entry& entry, std::optional<UnixMillis> at) {
  if (entry.scheduled_at) {
    deadlines_.erase({*entry.scheduled_at, entry.row.id});
  }
  entry.scheduled_at = at;
  if (at) {
    deadlines_.emplace(*at, entry.row.id);
    deadlines_changed_.set();
  }
}

Task<> Sandboxes::expire_due(Scope& scope) {
  for (;;) {
    const UnixMillis now = this->now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      const EntryPointer entry = entries_.find(deadlines_.begin()->second)->second;
      const auto due = due_at(*entry);
      const bool over = due && *due <= now;
      schedule(*entry, over ? std::nullopt : due);
      if (over) {
        scope.spawn("expire", expire_one(entry));
      }
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
    if (!waited && waited.error().code == Code::kCancelled) {
      co_return ok();
    }
  }
}

Task<> Sandboxes::expire_one(EntryPointer entry) {
  CO_TRY(const auto held, co_await hold(entry));
  // Somebody may have given it more time while we waited.
  const auto due = due_at(*entry);
  if (!due || *due > now()) {
    schedule(*entry, due);
    co_return ok();
  }
  const auto& hard = entry->row.hard_expires_at;
  const bool ttl_over = entry->row.status == SandboxStatus::kRunning && entry->row.expires_at &&
                        *entry->row.expires_at <= now();
  const TtlEnd end = ttl_over && ttl_over_ ? ttl_over_(entry->row) : TtlEnd::kPause;
  const bool for_good = (hard && *hard <= now()) || end == TtlEnd::kDelete;
  if (!for_good && entry->row.status == SandboxStatus::kPaused) {
    if (background_dumps_ >= kMaxBackgroundDumps) {
      const UnixMillis later = now() + kExpiryRetryMs;
      schedule(*entry, hard ? std::min(*hard, later) : later);
      co_return ok();
    }
    const Counted dumping{background_dumps_};
    if (auto dumped = co_await shielded(dump_held(entry)); !dumped) {
      LOG_WARN("memory of a paused sandbox stays for now", {"sandbox", entry->row.id},
               {"error", dumped.error()});
    }
    schedule(*entry, due_at(*entry));
    co_return ok();
  }
  LOG_INFO("sandbox expired", {"sandbox", entry->row.id}, {"for_good", for_good});
  ATOLL_FAULT_POINT("control.expiry.due");
  Result<> ended;
  if (for_good) {
    ended = co_await shielded(remove_held(entry));
  } else {
    ended = co_await shielded(
        pause_held(entry, end == TtlEnd::kPauseDisk ? PauseMemory::kDrop : PauseMemory::kKeep));
  }
  if (!ended) {
    LOG_WARN("could not end the time of a sandbox yet", {"sandbox", entry->row.id},
             {"error", ended.error()});
    if (due_at(*entry)) {
      schedule(*entry, now() + kExpiryRetryMs);
    }
  }
  co_return ok();
}

}  // namespace atl::control
