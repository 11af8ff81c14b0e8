#include "proxy/socket.h"

#include <cerrno>

#include "base/scope.h"

namespace atl::proxy {
namespace {

Task<> note_speaker(Socket& socket, bool& speaks, Event& spoken) {
  CO_TRY_DO(co_await wait_readable(socket));
  speaks = true;
  spoken.set();
  co_return ok();
}

}  // namespace

Task<> wait_readable(Socket& socket) {
  co_return co_await socket.watch.readable();
}

Task<std::string> receive_some(Socket& socket, std::size_t most) {
  std::string bytes(most, '\0');
  for (;;) {
    const ssize_t got = ::recv(socket.fd.get(), bytes.data(), bytes.size(), 0);
    if (got >= 0) {
      bytes.resize(static_cast<std::size_t>(got));
      co_return bytes;
    }
    if (errno == EAGAIN) {
      CO_TRY_DO(co_await socket.watch.readable());
    } else if (errno != EINTR) {
      co_return fail_errno("reading from a connection");
    }
  }
}

Task<> send_all(Socket& socket, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      CO_TRY_DO(co_await socket.watch.writable());
    } else if (errno != EINTR) {
      co_return fail_errno("writing to a connection");
    }
  }
  co_return ok();
}

Task<bool> client_speaks_first(Socket& client, Socket& upstream) {
  bool client_speaks = false;
  bool upstream_speaks = false;
  Event spoken;
  Scope scope{co_await current_context()};
  scope.spawn("client", note_speaker(client, client_speaks, spoken));
  scope.spawn("upstream", note_speaker(upstream, upstream_speaks, spoken));
  auto waited = co_await spoken.wait();
  CO_TRY_DO(co_await scope.cancel_and_join());
  CO_TRY_DO(std::move(waited));
  co_return client_speaks;
}

}  // namespace atl::proxy
