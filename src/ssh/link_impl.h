// One libssh session on our loop.
//
// libssh never blocks here. Its session is non-blocking and has a descriptor of its own (a
// duplicate, because it closes it whenever it likes); we watch ours and give libssh a turn when
// there is something to read, or to write if it said so. Whoever waits for anything of the session
// waits for the end of a turn and looks again. Callbacks of libssh only note what happened and wake
// the waiting in a later turn of the loop, so nothing of ours ever runs inside libssh.
#pragma once

#include "base/fd.h"
#include "base/scope.h"
#include "io/reactor.h"
#include "ssh/libssh_impl.h"

namespace atl::ssh {

class Link {
 public:
  // The session must already have its descriptor; `fd` is ours of the same connection.
  Link(io::Reactor& reactor, Fd fd, SessionHandle session);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  ssh_session session() const { return session_.get(); }
  // Before the pump runs: repeats a step of the handshake until it says something else than
  // `again`.
  template <class Step>
  Task<int> repeat(Step step, int again) {
    for (;;) {
      const int outcome = step();
      if (outcome != again) {
        co_return outcome;
      }
      CO_TRY_DO(co_await wait_for_input());
    }
  }
  Result<> start_events();  // REQUIRES: the handshake is done
  // Gives libssh its turns until the connection is over, which is an error.
  Task<> pump();
  // The end of the next turn. Look again then.
  Event::Wait turned() { return turned_.wait(); }
  void wake();
  // After each call into libssh that may have read or written.
  void touched();
  bool can_write() const;
  bool over() const { return over_; }
  std::unexpected<Error> over_error() const;

 private:
  Task<> wait_for_input();
  Task<> pump_reads();
  Task<> pump_writes();
  bool readable_now() const;
  void turn();

  Fd fd_;
  io::FdWatch watch_;
  SessionHandle session_;
  EventHandle event_;
  Event turned_;
  Event wants_to_write_;
  bool over_ = false;
};

}  // namespace atl::ssh
