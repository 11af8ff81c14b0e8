// A connected socket with its watch: what a relay works on.
#pragma once

#include <sys/socket.h>

#include "base/fd.h"
#include "io/reactor.h"

namespace atl::proxy {

struct Socket {
  Socket(io::Reactor& reactor, Fd socket) : fd(std::move(socket)), watch(reactor, fd.get()) {}
  // The other side sees a reset instead of an end: it must not take what came so far for all.
  void reset_on_close() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }

  Fd fd;
  io::FdWatch watch;
};

// Ends when reading would not wait. Takes nothing, so it may be cancelled.
Task<> wait_readable(Socket& socket);
// What came, at least one byte; empty at the end.
Task<std::string> receive_some(Socket& socket, std::size_t most);
// The bytes must stay valid until it returns.
Task<> send_all(Socket& socket, std::string_view bytes);
// Ends when either has something to say; true: the client has.
Task<bool> client_speaks_first(Socket& client, Socket& upstream);

}  // namespace atl::proxy
