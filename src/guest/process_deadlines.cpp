// Process, the part that waits: for its end, for activity, for a removal, for a first reader.
#include <signal.h>

#include <algorithm>

#include "guest/limits.h"
#include "guest/process.h"

namespace atl::guest {

void Process::on_deadline(std::int64_t now_ms) {
  if (timeout_at_ms_ && *timeout_at_ms_ <= now_ms) {
    timeout_at_ms_.reset();
    timed_out_ = info_.running && !idle_timed_out_;
    kill_group(SIGKILL);
  }
  if (idle_at_ms_ && *idle_at_ms_ <= now_ms) {
    check_idle(now_ms);
  }
  if (reader_grace_at_ms_ && *reader_grace_at_ms_ <= now_ms) {
    reader_grace_at_ms_.reset();
    unread_matters_ = false;
    settle();
  }
  if (hang_up_at_ms_ && *hang_up_at_ms_ <= now_ms) {
    hang_up_at_ms_.reset();
    if (info_.running) {
      ask_to_end();
    }
  }
  if (remove_kill_at_ms_ && *remove_kill_at_ms_ <= now_ms) {
    hang_up_at_ms_.reset();
    remove_kill_at_ms_.reset();
    remove_killed_ = true;
    kill_group(SIGKILL);
    if (!info_.running) {
      ::kill(-pid_, SIGKILL);  // members that outlived their leader keep the id taken
    }
    check_removed();
  }
  if (forget_at_ms_ && *forget_at_ms_ <= now_ms) {
    forget();
  }
}

void Process::ask_to_end() {
  if (info_.pty) {
    kill_group(SIGHUP);  // an interactive shell ignores SIGTERM
    hang_up_at_ms_ = monotonic_ms() + kHangUpAgainMs;
  }
  kill_group(SIGTERM);
  kill_group(SIGCONT);
}

void Process::check_idle(std::int64_t now_ms) {
  // Output that a slow client keeps waiting is not silence.
  const std::int64_t since_ms = reading_ ? active_at_ms_ : now_ms;
  if (since_ms + idle_timeout_ms_ > now_ms) {
    idle_at_ms_ = since_ms + idle_timeout_ms_;
    return;
  }
  idle_at_ms_.reset();
  idle_timed_out_ = info_.running && !timed_out_;
  kill_group(SIGKILL);
}

std::optional<std::int64_t> Process::next_deadline_ms() const {
  std::optional<std::int64_t> next;
  for (const auto& deadline : {timeout_at_ms_, idle_at_ms_, remove_kill_at_ms_, hang_up_at_ms_,
                               reader_grace_at_ms_, forget_at_ms_}) {
    if (deadline && (!next || *deadline < *next)) {
      next = deadline;
    }
  }
  return next;
}

// A reader that has left may have lost what was on its way.
std::uint64_t Process::unread_from() const {
  return read_offset_ - std::min<std::uint64_t>(read_offset_, journal_.capacity_bytes() / 4);
}

bool Process::waits_for_reader() {
  if (!unread_matters_) {
    return false;
  }
  const bool read = std::any_of(readers_.begin(), readers_.end(), [](const Reader& reader) {
    return reader.contiguous && !reader.gone;
  });
  const bool full = !read && journal_.full_after(unread_from());
  if (full != reader_grace_at_ms_.has_value()) {
    reader_grace_at_ms_ = full ? std::optional{monotonic_ms() + kFirstReaderGraceMs} : std::nullopt;
    owner_.on_deadline_changed();
  }
  return full;
}

}  // namespace atl::guest
