// Lifetimes are seconds that pass, deadlines are times of day.
//
// Whoever sets the clock of the host moves every deadline away from the moment it stands for: an
// hour forward would delete what has an hour to live. So the clock is compared with the loop's
// time, which nobody sets, whenever a deadline is made or looked at, and when the two disagree all
// deadlines move with the clock. Nothing that was made before the jump is looked at after it
// without that. A jump while nobody runs cannot be seen; then deadlines are what the clock says.
#include "base/log.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {

UnixMillis Sandboxes::now() {
  const UnixMillis wall = clock_.now();
  if (loop_ == nullptr) {
    return wall;
  }
  const auto passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - mark_.steady).count();
  const std::int64_t jump_ms = wall - mark_.wall - passed;
  if (jump_ms >= kClockJumpMs || jump_ms <= -kClockJumpMs) {
    mark_ = {wall, loop_->now()};
    move_deadlines(jump_ms);
  }
  return wall;
}

void Sandboxes::begin_clock(Loop& loop) {
  loop_ = &loop;
  mark_ = {clock_.now(), loop.now()};
}

void Sandboxes::move_deadlines(std::int64_t jump_ms) {
  LOG_WARN("the clock of the host was set; deadlines move with it", {"by_ms", jump_ms});
  for (const auto& [id, entry] : entries_) {
    entry->last_used_at += jump_ms;
    for (auto* deadline : {&entry->row.expires_at, &entry->row.hard_expires_at}) {
      if (*deadline) {
        **deadline += jump_ms;
        entry->unsaved = true;
      }
    }
    schedule(*entry, due_at(*entry));
  }
  clock_moved_.set();
}

// Writes moved deadlines to the store, until cancelled.
Task<> Sandboxes::save_moved_deadlines() {
  for (;;) {
    CO_TRY_DO(co_await clock_moved_.wait());
    clock_moved_.clear();
    std::vector<EntryPointer> moved;
    for (const auto& [id, entry] : entries_) {
      if (entry->unsaved) {
        moved.push_back(entry);
      }
    }
    for (const auto& entry : moved) {
      CO_TRY(const auto held, co_await hold(entry));
      entry->unsaved = false;
      if (entry->gone) {
        continue;
      }
      if (auto saved = co_await shielded(configure(entry, entry->row)); !saved) {
        LOG_WARN("a moved deadline is not on disk", {"sandbox", entry->row.id},
                 {"error", saved.error()});
      }
    }
  }
}

}  // namespace atl::control
