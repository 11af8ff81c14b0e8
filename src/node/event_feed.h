// Events to everybody who watches.
//
// A watcher is a non-blocking socket of a connection. One that does not read fast enough is cut
// off: it then knows that it missed something, asks for the list and watches again. So publishing
// never waits and nothing queues without bound. Thread-safe.
#pragma once

#include <mutex>
#include <set>

#include "node/protocol.h"

namespace atl::node {

class EventFeed {
 public:
  void add(int socket);
  void remove(int socket);  // before the socket is closed
  void publish(const Event& event);

 private:
  std::mutex mutex_;
  std::set<int> sockets_;
};

}  // namespace atl::node
