#include "proxy/relay.h"

#include <fcntl.h>

#include <cerrno>

#include "base/scope.h"
#include "proxy/limits.h"

namespace atl::proxy {
namespace {

// A pipe on loan. One that still holds bytes is not given back: the next would send them.
class Loan {
 public:
  Loan(PipePool& pool, Pipe pipe) : pool_(pool), pipe_(std::move(pipe)) {}
  ~Loan() {
    if (bytes == 0) {
      pool_.give_back(std::move(pipe_));
    } else {
      pool_.forget();
    }
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  Pipe& pipe() { return pipe_; }
  std::size_t bytes = 0;

 private:
  PipePool& pool_;
  Pipe pipe_;
};

}  // namespace

Task<std::string> ready_bytes(std::string bytes) {
  co_return bytes;
}

Task<> Relay::run(Task<std::string> first_out) {
  Scope scope{co_await current_context()};
  scope.spawn("relay in", pump_in(scope));
  Result<> outward = co_await pump_out(std::move(first_out)).under(scope.context());
  if (!outward) {
    scope.cancel();
  }
  CO_TRY_DO(co_await scope.join());
  // The side that failed by itself says why; the other was only cancelled.
  Result<>& first =
      !inward_ && (outward || outward.error().code == Code::kCancelled) ? inward_ : outward;
  if (!first) {
    client_.reset_on_close();
    upstream_.reset_on_close();
  }
  co_return std::move(first);
}

Task<> Relay::pump_in(Scope& scope) {
  // Most servers wait to be spoken to.
  inward_ = co_await wait_readable(upstream_);
  if (inward_) {
    inward_ = co_await pump(Direction::kIn);
  }
  if (!inward_) {
    scope.cancel();
  }
  co_return ok();
}

Task<> Relay::pump_out(Task<std::string> first_out) {
  CO_TRY(const std::string first, co_await std::move(first_out));
  if (!first.empty()) {
    CO_TRY_DO(co_await send_all(upstream_, first));
  }
  co_return co_await pump(Direction::kOut);
}

Task<> Relay::pump(Direction direction) {
  for (;;) {
    if (meter_.allowed(direction, 1) == 0) {
      CO_TRY_DO(co_await sleep_for(meter_.wait_time(direction)));
      continue;
    }
    // Not one expression: two awaits in it are a compiler's trap.
    bool goes_on = false;
    if (busy(direction)) {
      CO_TRY(goes_on, co_await splice_once(direction));
    } else {
      CO_TRY(goes_on, co_await copy_once(direction));
    }
    if (!goes_on) {
      // The second end needs no word of its own: both sockets are closed now. The peer may be gone
      // already; then its own direction says so.
      if (!std::exchange(half_closed_, true)) {
        ::shutdown(sink(direction).fd.get(), SHUT_WR);
      }
      co_return ok();
    }
  }
}

Task<bool> Relay::copy_once(Direction direction) {
  Socket& from = source(direction);
  const std::size_t most = meter_.allowed(direction, tools_.buffer.size());
  const ssize_t got = ::recv(from.fd.get(), tools_.buffer.data(), most, 0);
  if (got == 0) {
    co_return false;
  }
  if (got < 0) {
    if (errno == EAGAIN) {
      CO_TRY_DO(co_await from.watch.readable());
    } else if (errno != EINTR) {
      co_return fail_errno("reading from a connection");
    }
    co_return true;
  }
  const auto size = static_cast<std::size_t>(got);
  meter_.moved(direction, size);
  if (direction == Direction::kOut && on_first_bytes_) {
    std::exchange(on_first_bytes_, nullptr)({tools_.buffer.data(), size});
  }
  Socket& to = sink(direction);
  ssize_t sent = ::send(to.fd.get(), tools_.buffer.data(), size, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    co_return fail_errno("writing to a connection");
  }
  const auto done = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  if (done < size) {
    const std::string rest{tools_.buffer.data() + done, size - done};
    CO_TRY_DO(co_await send_all(to, rest));
  }
  busy(direction) = size == tools_.buffer.size();
  if (size < most) {
    CO_TRY_DO(co_await from.watch.readable());  // there is no more: not asked once again
  }
  co_return true;
}

Task<bool> Relay::splice_once(Direction direction) {
  auto borrowed = tools_.pipes.borrow();
  busy(direction) = borrowed.has_value();
  if (!borrowed) {
    co_return true;
  }
  Socket& from = source(direction);
  std::size_t moved = 0;
  bool waits = false;
  {
    Loan loan{tools_.pipes, *std::move(borrowed)};
    while (moved < kBytesPerTurn) {
      const std::size_t most = meter_.allowed(direction, kBytesPerTurn - moved);
      if (most == 0) {
        break;
      }
      const ssize_t got = ::splice(from.fd.get(), nullptr, loan.pipe().write_end.get(), nullptr,
                                   most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (got == 0) {
        co_return false;
      }
      if (got < 0 && errno != EAGAIN && errno != EINTR) {
        co_return fail_errno("reading from a connection");
      }
      if (got < 0) {
        waits = true;
        break;
      }
      loan.bytes = static_cast<std::size_t>(got);
      moved += loan.bytes;
      meter_.moved(direction, loan.bytes);
      CO_TRY_DO(co_await empty_pipe(loan.pipe(), loan.bytes, sink(direction)));
      loan.bytes = 0;
    }
  }
  busy(direction) = moved >= kCopyBytes / 4;
  if (waits || moved >= kBytesPerTurn) {
    CO_TRY_DO(co_await from.watch.readable());
  }
  co_return true;
}

Task<> Relay::empty_pipe(Pipe& pipe, std::size_t bytes, Socket& to) {
  while (bytes > 0) {
    const ssize_t sent = ::splice(pipe.read_end.get(), nullptr, to.fd.get(), nullptr, bytes,
                                  SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (sent > 0) {
      bytes -= static_cast<std::size_t>(sent);
    } else if (sent == 0 || (errno != EAGAIN && errno != EINTR)) {
      co_return fail_errno("writing to a connection");
    } else {
      CO_TRY_DO(co_await to.watch.writable());
    }
  }
  co_return ok();
}

}  // namespace atl::proxy
