// The agent: accepts connections, gives each request to whoever serves it, reaps children.
//
// Single-threaded. Nothing it does on behalf of a request may wait: process requests are served by
// the table in this loop, file requests by a forked worker that owns the connection from then on.
// No request ends the agent; a bad one ends its own connection.
#pragma once

#include <list>
#include <memory>
#include <set>

#include "base/fd.h"
#include "guest/connection.h"
#include "guest/loop.h"
#include "guest/processes.h"

namespace atl::guest {

class Agent final : private Connection::Owner {
 public:
  // `listener` is a listening unix stream socket.
  static Result<std::unique_ptr<Agent>> create(Fd listener);
  ~Agent() override;

  // Serves for ever. Returns only when the loop itself fails.
  Result<> run();

 private:
  Agent(Fd listener, std::unique_ptr<Loop> loop, const rlimit& file_limit);
  Result<> start();

  void on_connect();
  void on_child();
  void admit(Fd socket);
  bool drop_oldest_idle();
  void begin(Connection& connection, Kind kind, std::string_view payload);
  void serve_file(Connection& connection, Kind kind, std::string_view payload);
  void serve_capture(Connection& connection, std::string_view payload);
  void serve_socket_search(Connection& connection, std::string_view payload);
  void sweep();
  void prepare_dump();
  void go_on_preparing();
  void tell_preparations();
  void close_connections();

  void on_frame(Connection& connection, Kind kind, std::string_view payload) override;
  void on_drained(Connection& connection) override;
  void on_peer_gone(Connection& connection) override;
  void on_closed(Connection& connection) override;

  std::unique_ptr<Loop> loop_;
  Fd listener_;
  Watch listener_watch_;
  Fd signals_;
  Watch signals_watch_;
  Fd reserve_;  // given up to accept and refuse when descriptors run out
  Processes processes_;
  std::list<Connection> connections_;
  std::set<pid_t> file_workers_;
  std::set<pid_t> watchers_;
  std::set<pid_t> captures_;
  std::set<pid_t> searches_;   // for holders of sockets
  unsigned preparations_ = 0;  // for dumps
  bool preparing_ = false;     // another one
  bool to_own_ = false;        // processes are to get memory of their own for it
  pid_t owner_ = -1;           // the worker that gives it to them
  std::uint64_t next_serial_ = 1;
  bool dirty_ = false;
  bool may_be_a_copy_ = false;  // a dump was about to be made
};

}  // namespace atl::guest
