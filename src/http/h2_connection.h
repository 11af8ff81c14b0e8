// One HTTP/2 connection of the server: many requests at once, each with a handler of its own.
//
// Three kinds of task share the session: the reader feeds it, the writer sends what it has to say,
// handlers answer requests through their exchange. A handler whose client has gone is not
// cancelled, as in HTTP/1; it notices when it writes or by client_gone(). The connection is over
// when the client leaves or breaks the rules, when it has been idle, or when it is drained and
// the last handler has returned.
#pragma once

#include <memory>
#include <string>

#include "http/h2_exchange.h"
#include "http/h2_session.h"
#include "http/server_core.h"

namespace atl::http {

class Http2Connection {
 public:
  // `early` is what was read of the connection already. The others outlive this.
  Http2Connection(ServerCore& core, io::Stream& stream, const std::string& peer, std::string early);
  Task<> serve();
  // No new requests; ends when those under way have been answered.
  void drain();

 private:
  Task<> read_loop(Scope& handlers);
  // False: no bytes, look at the state of things again.
  Task<bool> wait_for_bytes();
  Task<> write_loop();
  Task<> watch_idle();
  Task<> handle(std::shared_ptr<Http2Stream> stream);
  Task<> end_exchange(Http2Exchange& exchange, Http2Stream& stream, const Result<>& handled);
  Task<> end_websocket(Http2Exchange& exchange, WebSocketLink& link, bool failed);
  bool over() const;
  void wake_reader();

  ServerCore& core_;
  io::Stream& stream_;
  const std::string& peer_;
  std::string early_;
  std::size_t handlers_ = 0;
  Http2Session session_;
  Event wake_;  // the session has something to send
  CancelState* waiting_ = nullptr;
  Instant idle_since_{};
  bool stopping_ = false;  // nothing more will be said; the writer ends when it is done
  bool broken_ = false;    // the writer failed
  bool expired_ = false;
};

}  // namespace atl::http
