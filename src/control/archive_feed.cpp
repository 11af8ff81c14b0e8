#include "control/archive_feed.h"

#include <chrono>
#include <utility>

#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxFeedBytes = 2U << 20;  // above it nothing more is taken from the client
constexpr std::size_t kLowBytes = 512U << 10;    // what the longest step of a reader may need

// A piece of one byte takes memory too.
std::size_t cost_bytes(const std::string& piece) {
  return piece.size() + 64;
}

}  // namespace

ArchiveFeed::ArchiveFeed(Loop& loop)
    : state_(std::make_shared<State>(loop)), patience_left_(kGuestStallTimeout) {}

Task<> ArchiveFeed::offer(std::string piece) {
  State& state = *state_;
  for (;;) {
    {
      const std::lock_guard lock{state.mutex};
      if (state.bytes < kMaxFeedBytes) {
        state.bytes += cost_bytes(piece);
        state.pieces.push_back(std::move(piece));
        break;
      }
      state.room.clear();
    }
    CO_TRY_DO(co_await state.room.wait());
  }
  state.arrived.notify_one();
  if (!low()) {
    state.filled.set();
  }
  co_return ok();
}

void ArchiveFeed::close(Result<> how) {
  {
    const std::lock_guard lock{state_->mutex};
    state_->closed = std::move(how);
  }
  state_->arrived.notify_one();
  state_->filled.set();
}

Task<> ArchiveFeed::wait_until_filled() {
  if (low()) {
    state_->filled.clear();
    CO_TRY_DO(co_await state_->filled.wait());
  }
  co_return ok();
}

bool ArchiveFeed::low() const {
  const std::lock_guard lock{state_->mutex};
  return state_->bytes < kLowBytes && !state_->closed;
}

void ArchiveFeed::begin_step() {
  patience_left_ = kGuestStallTimeout;
}

Result<std::string_view> ArchiveFeed::next() {
  State& state = *state_;
  {
    std::unique_lock lock{state.mutex};
    const auto since = std::chrono::steady_clock::now();
    const bool told = state.arrived.wait_for(lock, patience_left_, [&state] {
      return !state.pieces.empty() || state.closed.has_value();
    });
    patience_left_ -=
        std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - since);
    if (!told) {
      return fail(Code::kDeadlineExceeded, "the archive stopped coming", "client_stalled");
    }
    if (state.pieces.empty()) {
      if (!*state.closed) {
        return fail(state.closed->error());
      }
      return std::string_view{};
    }
    piece_ = std::move(state.pieces.front());
    state.pieces.pop_front();
    state.bytes -= cost_bytes(piece_);
  }
  state.loop.post([shared = state_] { shared->room.set(); });
  return std::string_view{piece_};
}

}  // namespace atl::control
