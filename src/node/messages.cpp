#include "node/messages.h"

#include <sys/socket.h>

#include <cerrno>

#include "node/protocol.h"

namespace atl::node {
namespace {

ssize_t receive(int socket, std::string& into, int flags) {
  ssize_t got = 0;
  do {
    got = ::recv(socket, into.data(), into.size(), flags);
  } while (got < 0 && errno == EINTR);
  return got;
}

// Of the next one; 0 when the peer closed.
Result<std::size_t> size_of_next(int socket) {
  std::string nothing;
  const ssize_t size = receive(socket, nothing, MSG_PEEK | MSG_TRUNC);
  if (size < 0) {
    return fail_errno("receiving a message");
  }
  if (static_cast<std::size_t>(size) > kMaxMessageBytes) {
    return fail(Code::kInvalidArgument, "message is too large", "malformed");
  }
  return static_cast<std::size_t>(size);
}

}  // namespace

Result<std::string> receive_message(int socket) {
  TRY(const std::size_t size, size_of_next(socket));
  std::string message(size, '\0');
  // recv(2) without room for control data: descriptors that a peer attached are dropped.
  if (size > 0 && receive(socket, message, 0) != static_cast<ssize_t>(size)) {
    return fail_errno("receiving a message");
  }
  return message;
}

Result<io::Datagram> receive_message_with_fds(int socket) {
  TRY(const std::size_t size, size_of_next(socket));
  return size == 0 ? Result<io::Datagram>{} : io::receive_datagram(socket, size);
}

}  // namespace atl::node
