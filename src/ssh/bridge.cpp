#include "ssh/bridge.h"

#include <sys/socket.h>

#include "base/scope.h"
#include "ssh/limits.h"

namespace atl::ssh {

Result<std::unique_ptr<Bridge>> Bridge::make(io::Reactor& reactor, io::Stream& stream) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return fail_errno("making a socket pair");
  }
  return std::unique_ptr<Bridge>{new Bridge{reactor, stream, Fd{ends[0]}, Fd{ends[1]}}};
}

Task<> Bridge::pass_on(io::Stream& from, io::Stream& to, Event& ended) {
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    auto got = co_await from.read(buffer);
    if (!got || *got == 0) {
      (void)to.finish_writing();
      ended.set();
      co_return ok();
    }
    auto written = co_await to.write(std::string_view{buffer}.substr(0, *got));
    if (!written) {
      ended.set();
      co_return ok();
    }
  }
}

Task<> Bridge::run() {
  Event inward_ended;
  Event outward_ended;
  Scope scope{co_await current_context()};
  scope.spawn("bridge in", pass_on(stream_, near_, inward_ended));
  scope.spawn("bridge out", pass_on(near_, stream_, outward_ended));
  // What the session still had to say is out when its end has come through.
  auto waited = co_await outward_ended.wait();
  (void)co_await scope.cancel_and_join();
  co_return std::move(waited);
}

}  // namespace atl::ssh
