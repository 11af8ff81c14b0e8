// The node's socket: one thread per connection, blocking, one request at a time.
//
// Blocking threads suit what they do (system calls that block) and keep the privileged process
// simple to read. There are at most kMaxServerConnections of them, because only atolld connects:
// the socket belongs to its user, and the peer's uid is checked again on every connection.
//
// A client that died may have left a request under way, which goes on. Who asks what there is (the
// next client, first of all) is answered only when those have ended: otherwise it would miss a cell
// that is just being made, and nobody would ever ask for it again.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/fd.h"
#include "node/cells.h"
#include "node/event_feed.h"
#include "node/protocol.h"
#include "node/templates.h"

namespace atl::node {

class Server {
 public:
  struct Parts {
    Cells& cells;
    EventFeed& events;
    HelloAnswer hello;
    std::string socket_path;
    uid_t peer_uid = 0;  // besides root
    gid_t peer_gid = 0;
    // Without these two no layer can be changed, and `hello` says which templates there are.
    layers::Pool* pool = nullptr;
    BuiltinTemplates* templates = nullptr;
  };
  // Listens and serves from its own threads.
  static Result<std::unique_ptr<Server>> start(Parts parts);
  // Accepts nothing more and returns when the requests under way are answered.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  struct Connection {
    Fd socket;
    std::atomic<bool> done = false;
    std::jthread thread;
  };

  Server(Parts parts, Fd listening, Fd wake);
  void accept_loop();
  void accept_one();
  bool is_allowed(int socket) const;
  void serve(Connection& connection);
  void stream_events(int socket);
  class Busy;
  void wait_for_abandoned(int asking);
  // What goes along with an answer. Closed when it has been sent.
  struct Passed {
    std::shared_ptr<NetworkSockets> network;
    Fd socket;
    std::vector<int> fds() const;
  };
  Result<std::string> handle(const DecodedRequest& request, Passed& passed);
  Result<std::string> handle_layer(const DecodedRequest& request);
  Result<std::string> handle_snapshot(const DecodedRequest& request);
  Result<std::string> handle_volume(const DecodedRequest& request);
  Result<std::string> handle_network(const DecodedRequest& request, Passed& passed);
  Result<std::string> handle_cell(const DecodedRequest& request, Passed& passed);

  Parts parts_;
  Fd listening_;
  Fd wake_;
  std::mutex busy_mutex_;
  std::condition_variable busy_changed_;
  std::set<int> busy_;                 // sockets with a request under way
  std::list<Connection> connections_;  // the accepting thread's, then the destructor's
  std::jthread accepting_;
};

}  // namespace atl::node
