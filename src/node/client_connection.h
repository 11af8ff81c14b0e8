// One connection of atolld to the node's socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/strings.h"
#include "base/task.h"
#include "io/fd_passing.h"
#include "io/reactor.h"
#include "node/messages.h"

namespace atl::node {

inline Error lost(std::string_view detail) {
  return {Code::kUnavailable, concat("the node process does not answer: ", detail), "node_lost"};
}

class Connection {
 public:
  Connection(io::Reactor& reactor, Fd fd) : fd_(std::move(fd)), watch_(reactor, fd_.get()) {}

  // Unix sockets connect at once or not at all.
  static Result<std::unique_ptr<Connection>> open(io::Reactor& reactor, const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
      return fail(Code::kInvalidArgument, concat("socket path is too long: ", path));
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!fd ||
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return fail(lost(errno_error(concat("connecting to ", path)).message));
    }
    return std::make_unique<Connection>(reactor, std::move(fd));
  }

  Task<> send(std::string_view bytes) {
    for (;;) {
      auto sent = io::send_datagram(fd_.get(), bytes);
      if (sent || !must_wait(sent.error())) {
        co_return sent;
      }
      CO_TRY_DO(co_await watch_.writable());
    }
  }

  Task<io::Datagram> receive() {
    for (;;) {
      auto message = receive_message_with_fds(fd_.get());
      if (message && message->bytes.empty()) {
        co_return fail(lost("it closed the connection"));
      }
      if (message || !must_wait(message.error())) {
        co_return message;
      }
      CO_TRY_DO(co_await watch_.readable());
    }
  }

 private:
  Fd fd_;
  io::FdWatch watch_;
};

}  // namespace atl::node
