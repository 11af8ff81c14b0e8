#include "node/event_feed.h"

#include <sys/socket.h>

#include "base/log.h"
#include "io/fd_passing.h"

namespace atl::node {

void EventFeed::add(int socket) {
  const std::lock_guard guard{mutex_};
  sockets_.insert(socket);
}

void EventFeed::remove(int socket) {
  const std::lock_guard guard{mutex_};
  sockets_.erase(socket);
}

void EventFeed::publish(const Event& event) {
  const std::string datagram = encode_event(event);
  const std::lock_guard guard{mutex_};
  for (auto socket = sockets_.begin(); socket != sockets_.end();) {
    if (const auto sent = io::send_datagram(*socket, datagram); !sent) {
      LOG_WARN("cut off a watcher that does not read its events", {"error", sent.error()});
      ::shutdown(*socket, SHUT_RDWR);  // its connection's thread sees the end and closes it
      socket = sockets_.erase(socket);
    } else {
      ++socket;
    }
  }
}

}  // namespace atl::node
