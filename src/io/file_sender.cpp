#include "io/file_sender.h"

#include <fcntl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cerrno>

#include "base/plain_file.h"

namespace atl::io {
namespace {

// What a thread does before others have their turn on it.
constexpr std::uint64_t kTurnBytes = std::uint64_t{2} << 20;
// Files that wait to be closed: with more of them no others are asked for.
constexpr std::size_t kManyClosing = 64;
// What somebody waits for a thread that has only turns before it.
constexpr Duration kLongWait = std::chrono::milliseconds{200};

struct Sent {
  std::uint64_t bytes = 0;
  bool ended = false;  // the file
  bool full = false;   // the socket
};

Result<Sent> send_some(int socket, int file, std::uint64_t offset, std::uint64_t length) {
  Sent sent;
  auto position = static_cast<off_t>(offset);
  const std::uint64_t wanted = std::min(length, kTurnBytes);
  while (sent.bytes < wanted) {
    const ssize_t got =
        ::sendfile(socket, file, &position, static_cast<std::size_t>(wanted - sent.bytes));
    if (got > 0) {
      sent.bytes += static_cast<std::uint64_t>(got);
    } else if (got == 0) {
      sent.ended = true;
      break;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      sent.full = true;
      break;
    } else if (errno != EINTR) {
      return fail_errno("sending a file");
    }
  }
  return sent;
}

// On a thread: one turn. The first one looks at the file.
Result<Sent> take_turn(int socket, const FileSender::Piece& piece, bool first) {
  if (first) {
    TRY_DO(check_plain_file(piece.file.get()));
  }
  return send_some(socket, piece.file.get(), piece.offset, piece.length);
}

// Tasks of their own, so that they can have a deadline.
Task<> wait_writable(FdWatch& watch) {
  co_return co_await watch.writable();
}
Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

Task<> within(Duration timeout, Task<> task) {
  return timeout == Duration::zero() ? std::move(task) : with_deadline(timeout, std::move(task));
}

}  // namespace

std::unique_ptr<FileSender::Place> FileSender::reserve(std::string owner) {
  if (places_ >= files_ || closing_elsewhere().waiting >= kManyClosing || is_stuck()) {
    return nullptr;
  }
  return std::make_unique<Place>(*this, std::move(owner));
}

// Threads that are all busy are not: with many clients they always are. Those that let somebody
// wait for long have met a disk that hangs, or a file that was made to be slow.
bool FileSender::is_stuck() const {
  return running_ >= at_a_time_ && !waiting_.empty() &&
         reactor_.now() - waiting_.front()->since > kLongWait;
}

void FileSender::grant_turns() {
  const std::size_t share = (at_a_time_ + 1) / 2;
  for (auto next = waiting_.begin(); next != waiting_.end() && running_ < at_a_time_;) {
    Turn& turn = **next;
    std::size_t& of_owner = on_thread_[turn.owner];
    if (of_owner >= share) {
      ++next;
      continue;
    }
    ++of_owner;
    ++running_;
    next = waiting_.erase(next);
    turn.granted.set();
  }
}

void FileSender::end_turn(const std::string& owner) {
  --running_;
  const auto of_owner = on_thread_.find(owner);
  if (--of_owner->second == 0) {
    on_thread_.erase(of_owner);
  }
  grant_turns();
}

// Who fails has none.
Task<> FileSender::wait_for_turn(Turn& turn, Duration timeout) {
  waiting_.push_back(&turn);
  grant_turns();
  if (turn.granted.is_set()) {
    co_return ok();
  }
  auto waited = co_await within(timeout, wait_for(turn.granted));
  if (waited) {
    co_return ok();
  }
  if (turn.granted.is_set()) {
    end_turn(turn.owner);
  } else {
    std::erase(waiting_, &turn);
  }
  if (waited.error().code == Code::kDeadlineExceeded) {
    co_return fail(Code::kUnavailable, "the disks do not get on with it", "busy");
  }
  co_return std::move(waited);
}

Task<> FileSender::send(const Place& place, int socket, Piece piece) {
  if (piece.offset > INT64_MAX || piece.length > INT64_MAX - piece.offset) {
    co_return fail(Code::kOutOfRange, "no file is that long");
  }
  // A descriptor of our own to wait for: the stream's is the stream's.
  const Fd own{::fcntl(socket, F_DUPFD_CLOEXEC, 0)};
  if (!own) {
    co_return fail_errno("copying a descriptor");
  }
  FdWatch watch{reactor_, own.get()};
  for (bool first = true; piece.length > 0; first = false) {
    Turn turn{.owner = place.owner(), .since = reactor_.now(), .granted = {}};
    CO_TRY_DO(co_await wait_for_turn(turn, piece.stall_timeout));
    const auto work = [&piece, &own, first] { return take_turn(own.get(), piece, first); };
    const auto sent = co_await threads_.run(work);
    end_turn(turn.owner);
    if (!sent) {
      co_return fail(sent.error());
    }
    piece.offset += sent->bytes;
    piece.length -= sent->bytes;
    if (piece.sent_bytes != nullptr) {
      piece.sent_bytes->add(sent->bytes);
    }
    if (piece.sent != nullptr) {
      *piece.sent += sent->bytes;
    }
    if (piece.length == 0) {
      break;  // and whoever cancels this now comes too late
    }
    if (sent->ended) {
      co_return fail(Code::kDataLoss, "the file became shorter while it was read");
    }
    if (sent->full) {
      CO_TRY_DO(co_await within(piece.stall_timeout, wait_writable(watch)));
    }
    // A thread's work cannot be cancelled, so it is asked for between two turns.
    const TaskContext& here = co_await current_context();
    if (here.cancel->cancelled()) {
      co_return fail(Code::kCancelled, "cancelled");
    }
  }
  co_return ok();
}

}  // namespace atl::io
