// Bytes between two sockets, both ways, until both have ended.
//
// What comes is copied through one buffer that all connections share (nothing is awaited between
// reading and sending, so no two can want it at once). When a read fills the buffer the direction
// is busy and is spliced through a borrowed pipe instead, which copies nothing. An idle direction
// holds neither. Each turn moves a bounded amount and then waits its turn in the reactor, so that
// bulk transfers leave the loop to others.
//
// An end on one side is passed on as an end (half-closed connections stay so); an error on either
// side ends both with a reset.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "proxy/allowance.h"
#include "proxy/pipe_pool.h"
#include "proxy/socket.h"

namespace atl::proxy {

class Relay {
 public:
  struct Tools {
    PipePool& pipes;
    std::span<char> buffer;
  };
  Relay(Tools tools, Meter& meter, Socket& client, Socket& upstream)
      : tools_(tools), meter_(meter), client_(client), upstream_(upstream) {}

  // Told once what the client sent first, when it passes: for the audit, nothing waits for it.
  void on_first_bytes(std::function<void(std::string_view)> listener) {
    on_first_bytes_ = std::move(listener);
  }
  // `first_out` gives the bytes that go upstream before anything else; until it has, nothing of the
  // client does. They were counted when they were read.
  Task<> run(Task<std::string> first_out);

 private:
  Task<> pump_out(Task<std::string> first_out);
  Task<> pump_in(Scope& scope);
  Task<> pump(Direction direction);
  Task<bool> copy_once(Direction direction);  // false: it has ended
  // The same. Its frame is its own: it would make that of an idle direction twice as large.
  [[gnu::noinline]] Task<bool> splice_once(Direction direction);
  Task<> empty_pipe(Pipe& pipe, std::size_t bytes, Socket& to);
  Socket& source(Direction direction) { return direction == Direction::kOut ? client_ : upstream_; }
  Socket& sink(Direction direction) { return direction == Direction::kOut ? upstream_ : client_; }
  bool& busy(Direction direction) { return busy_[static_cast<int>(direction)]; }

  Tools tools_;
  Meter& meter_;
  Socket& client_;
  Socket& upstream_;
  bool busy_[2] = {false, false};
  bool half_closed_ = false;  // one direction has ended
  std::function<void(std::string_view)> on_first_bytes_;
  Result<> inward_;
};

Task<std::string> ready_bytes(std::string bytes);

}  // namespace atl::proxy
