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

}  // namespace

Result<std::string> receive_message(int socket) {
  std::string message;
  const ssize_t size = receive(socket, message, MSG_PEEK | MSG_TRUNC);
  if (size < 0) {
    return fail_errno("receiving a message");
  }
  if (size == 0) {
    return message;
  }
  if (static_cast<std::size_t>(size) > kMaxMessageBytes) {
    return fail(Code::kInvalidArgument, "message is too large", "malformed");
  }
  message.resize(static_cast<std::size_t>(size));
  // recv(2) without room for control data: descriptors that a peer attached are dropped.
  if (receive(socket, message, 0) != size) {
    return fail_errno("receiving a message");
  }
  return message;
}

}  // namespace atl::node
