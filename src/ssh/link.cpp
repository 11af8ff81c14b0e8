#include <poll.h>

#include "base/strings.h"
#include "ssh/limits.h"
#include "ssh/link_impl.h"

namespace atl::ssh {

Link::Link(io::Reactor& reactor, Fd fd, SessionHandle session)
    : fd_(std::move(fd)), watch_(reactor, fd_.get()), session_(std::move(session)) {
  ::ssh_set_blocking(session_.get(), 0);
}

Link::~Link() {
  ::ssh_disconnect(session_.get());
  if (event_) {
    ::ssh_event_remove_session(event_.get(), session_.get());
  }
}

bool Link::readable_now() const {
  pollfd state{fd_.get(), POLLIN, 0};
  return ::poll(&state, 1, 0) > 0;
}

Task<> Link::wait_for_input() {
  if (!readable_now()) {
    CO_TRY_DO(co_await watch_.readable());
    co_return ok();
  }
  // More has come than one step takes; others get their turn before the next.
  CO_TRY_DO(co_await sleep_for(Duration::zero()));
  co_return ok();
}

Result<> Link::start_events() {
  event_.reset(::ssh_event_new());
  if (!event_ || ::ssh_event_add_session(event_.get(), session_.get()) != SSH_OK) {
    event_.reset();
    return fail(Code::kInternal, "an SSH session cannot be watched");
  }
  return {};
}

Task<> Link::pump() {
  Scope scope{co_await current_context()};
  scope.on_error([](const char*, const Error&) {});
  scope.spawn("writing", pump_writes());
  auto ended = co_await pump_reads();
  over_ = true;
  wake();
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

Task<> Link::pump_reads() {
  while (!over_) {
    if (!readable_now()) {
      CO_TRY_DO(co_await watch_.readable());
      continue;
    }
    turn();
    // A peer that never stops leaves the others their turns.
    CO_TRY_DO(co_await sleep_for(Duration::zero()));
  }
  co_return over_error();
}

Task<> Link::pump_writes() {
  while (!over_) {
    if (can_write()) {
      wants_to_write_.clear();
      CO_TRY_DO(co_await wants_to_write_.wait());
      continue;
    }
    CO_TRY_DO(co_await watch_.writable());
    turn();
  }
  co_return ok();
}

void Link::turn() {
  for (unsigned reads = 0; reads < kMaxReadsPerTurn && !over_; ++reads) {
    const bool failed = ::ssh_event_dopoll(event_.get(), 0) == SSH_ERROR;
    const int status = ::ssh_get_status(session_.get());
    over_ = over_ || failed || ::ssh_is_connected(session_.get()) == 0 ||
            (status & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0;
    if (over_ || !readable_now()) {
      break;
    }
  }
  touched();
}

void Link::wake() {
  turned_.set();
  turned_.clear();
}

void Link::touched() {
  if (!can_write()) {
    wants_to_write_.set();
  }
  wake();
}

bool Link::can_write() const {
  return (::ssh_get_poll_flags(session_.get()) & SSH_WRITE_PENDING) == 0;
}

std::unexpected<Error> Link::over_error() const {
  return fail(Code::kUnavailable, concat("the SSH connection is over: ", last_error(session())));
}

}  // namespace atl::ssh
