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

// On a thread: one turn. The last one closes the file, because to close one that was removed frees
// its blocks, and that may take long; the first one looks at it.
Result<Sent> take_turn(int socket, FileSender::Piece& piece, bool first) {
  if (first) {
    TRY_DO(check_plain_file(piece.file.get()));
  }
  auto sent = send_some(socket, piece.file.get(), piece.offset, piece.length);
  if (sent && sent->bytes == piece.length) {
    piece.file.reset();
  }
  return sent;
}

// A task of its own, so that it can have a deadline.
Task<> wait_writable(FdWatch& watch) {
  co_return co_await watch.writable();
}

}  // namespace

Task<> FileSender::send(int socket, Piece piece) {
  ++sending_;
  auto sent = co_await send_all(socket, piece);
  if (piece.file) {  // it was not sent to its end
    const auto close = [&piece]() -> Result<bool> {
      piece.file.reset();
      return true;
    };
    (void)co_await shielded(threads_.run(close));
  }
  --sending_;
  co_return std::move(sent);
}

Task<> FileSender::send_all(int socket, Piece& piece) {
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
    const auto turn = [&piece, &own, first] { return take_turn(own.get(), piece, first); };
    CO_TRY(const Sent sent, co_await threads_.run(turn));
    piece.offset += sent.bytes;
    piece.length -= sent.bytes;
    if (piece.sent_bytes != nullptr) {
      piece.sent_bytes->add(sent.bytes);
    }
    if (sent.ended) {
      co_return fail(Code::kDataLoss, "the file became shorter while it was read");
    }
    if (sent.full) {
      auto waiting = piece.stall_timeout == Duration::zero()
                         ? wait_writable(watch)
                         : with_deadline(piece.stall_timeout, wait_writable(watch));
      CO_TRY_DO(co_await std::move(waiting));
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
