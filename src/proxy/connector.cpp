#include "proxy/connector.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/limits.h"

namespace atl::proxy {
namespace {

Result<Fd> open_stream_socket(const Endpoint& endpoint) {
  Fd fd{::socket(endpoint.address.is_v4() ? AF_INET : AF_INET6,
                 SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd) {
    return fail_errno("creating a socket");
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return fd;
}

bool is_settled(int fd) {
  pollfd state{fd, POLLOUT, 0};
  return ::poll(&state, 1, 0) > 0;
}

Task<Fd> connect_one(io::Reactor& reactor, Endpoint endpoint) {
  CO_TRY(Fd fd, open_stream_socket(endpoint));
  const SocketAddress address = socket_address(endpoint);
  int error = ::connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    // A near peer has answered by the time the call returns.
    if (!is_settled(fd.get())) {
      io::FdWatch watch{reactor, fd.get()};
      CO_TRY_DO(co_await watch.writable());
    }
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    co_return fail(errno_error(concat("connecting to ", endpoint.text()), error));
  }
  co_return fd;
}

struct Race {
  std::optional<Connected> winner;
  Error last_error;
  std::size_t started = 0;
  std::size_t failed = 0;
  Event changed;
  bool is_settled() const { return winner.has_value() || failed == started; }
};

Task<> attempt(io::Reactor& reactor, Endpoint endpoint, Race& race) {
  auto fd = co_await connect_one(reactor, endpoint);
  if (fd && !race.winner) {
    race.winner = Connected{*std::move(fd), endpoint};
  } else if (!fd) {
    ++race.failed;
    race.last_error = std::move(fd).error();
  }
  race.changed.set();
  co_return ok();
}

Task<> wait_until_settled(Race& race) {
  while (!race.is_settled()) {
    race.changed.clear();
    CO_TRY_DO(co_await race.changed.wait());
  }
  co_return ok();
}

Task<> run_race(io::Reactor& reactor, std::vector<Endpoint> endpoints, Race& race) {
  Scope scope{co_await current_context()};
  Result<> waited;
  for (std::size_t i = 0; i < endpoints.size() && !race.winner; ++i) {
    ++race.started;
    scope.spawn("connect", attempt(reactor, endpoints[i], race));
    const bool last = i + 1 == endpoints.size();
    const Duration patience = last ? Duration{kConnectTime} : Duration{kNextAddressAfter};
    waited = co_await with_deadline(patience, wait_until_settled(race));
    if (!waited && waited.error().code == Code::kCancelled) {
      break;
    }
  }
  CO_TRY_DO(co_await scope.cancel_and_join());
  co_return std::move(waited);
}

}  // namespace

Task<Connected> connect_first(io::Reactor& reactor, std::vector<Endpoint> endpoints) {
  CHECK(!endpoints.empty());
  if (endpoints.size() == 1) {
    auto fd = co_await with_deadline(kConnectTime, connect_one(reactor, endpoints[0]));
    if (!fd) {
      co_return fail(std::move(fd).error());
    }
    co_return Connected{*std::move(fd), endpoints[0]};
  }
  Race race;
  auto waited = co_await run_race(reactor, std::move(endpoints), race);
  if (race.winner) {
    co_return *std::move(race.winner);
  }
  if (!waited) {
    co_return fail(std::move(waited).error());
  }
  co_return fail(std::move(race.last_error));
}

}  // namespace atl::proxy
