#include "ingress/ssh_gateway.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/strings.h"
#include "ingress/ssh_login.h"

namespace atl::ingress {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds{100};

// A peer that has gone without a word is noticed after some minutes.
void keep_alive(int fd) {
  const int on = 1;
  const int idle_seconds = 60;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Of the peer, in binary, without its port: a name to count by. A v6 peer has a whole /64.
std::string address_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {};
  }
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
    return {reinterpret_cast<const char*>(&v4), sizeof v4};
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);
    return {reinterpret_cast<const char*>(&v6), mapped ? sizeof v6 : sizeof v6 / 2};
  }
  return {};
}

}  // namespace

SshGateway::SshGateway(Parts parts, Fd port)
    : parts_(std::move(parts)), listener_(parts_.reactor, std::move(port)) {}
SshGateway::~SshGateway() = default;

Task<> SshGateway::run() {
  Scope scope{co_await current_context()};
  scope.on_error([](const char*, const Error& error) {
    LOG_DEBUG("an SSH connection ended", {"error", error});
  });
  Result<> ended;
  bool failing = false;
  for (;;) {
    auto stream = co_await listener_.accept();
    if (!stream && stream.error().code != Code::kCancelled) {
      // Out of descriptors, most likely. Nothing tells when one is free again, so look later.
      if (!std::exchange(failing, true)) {
        LOG_WARN("cannot accept SSH connections", {"error", stream.error()});
      }
      ended = co_await sleep_for(kAcceptPause);
      if (!ended) {
        break;
      }
      continue;
    }
    if (!stream) {
      ended = fail(std::move(stream).error());
      break;
    }
    failing = false;
    if (sessions_ >= kMaxSshSessions) {
      continue;  // closed at once: whoever waits would wait in vain
    }
    const int fd = (*stream)->fd();
    Fd connection{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    Fd own{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (connection && own) {
      keep_alive(fd);
      std::string address = address_of(fd);
      make_room(address);
      const auto stranger =
          strangers_.insert(strangers_.end(), {std::move(own), std::move(address)});
      scope.spawn("ssh", serve(std::move(connection), stranger));
    }
  }
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

// A login takes a moment, and whoever only holds a place takes all the time there is. So a newcomer
// is not turned away: the longest waiting makes room, one of the same address when it has its
// share.
void SshGateway::make_room(const std::string& address) {
  auto first = strangers_.end();
  auto first_neighbour = strangers_.end();
  std::size_t waiting = 0;
  std::size_t neighbours = 0;
  for (auto each = strangers_.begin(); each != strangers_.end(); ++each) {
    if (!each->connection) {
      continue;
    }
    first = waiting++ == 0 ? each : first;
    if (each->address == address) {
      first_neighbour = neighbours++ == 0 ? each : first_neighbour;
    }
  }
  auto leaving = strangers_.end();
  if (neighbours >= kMaxSshAnonymousPerAddress) {
    leaving = first_neighbour;
  } else if (waiting >= kMaxSshAnonymous) {
    leaving = first;
  }
  if (leaving != strangers_.end()) {
    ::shutdown(leaving->connection.get(), SHUT_RDWR);
    leaving->connection.reset();
  }
}

Task<> SshGateway::serve(Fd connection, Strangers::iterator stranger) {
  ++sessions_;
  SshLogin login{parts_, sessions_by_team_, [this, stranger] { strangers_.erase(stranger); }};
  auto served = co_await ssh::serve(parts_.reactor, std::move(connection),
                                    {.host_key = std::string{parts_.host_key.reveal()}}, login);
  if (!login.is_logged_in()) {
    strangers_.erase(stranger);
  }
  --sessions_;
  co_return std::move(served);
}

}  // namespace atl::ingress
