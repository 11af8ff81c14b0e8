// Receiving one datagram of the node protocol without reserving room for the largest.
#pragma once

#include <string>

#include "base/error.h"
#include "io/fd_passing.h"

namespace atl::node {

// The next datagram; empty when the peer closed. On a non-blocking socket without one:
// kResourceExhausted with reason EAGAIN. Descriptors are never expected and never accepted.
Result<std::string> receive_message(int socket);
// The same for whoever asked for descriptors.
Result<io::Datagram> receive_message_with_fds(int socket);
// True for the error of a non-blocking call that has to wait.
inline bool must_wait(const Error& error) {
  return error.reason == "EAGAIN";
}

}  // namespace atl::node
