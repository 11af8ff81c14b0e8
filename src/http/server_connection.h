// One client connection of the server: requests in order, one at a time, until it ends. A client
// that begins with the preface of HTTP/2 (chosen by ALPN or known before) goes to Http2Connection.
//
// Pipelined requests wait in the wire's buffer (and then in the kernel) while one is served, so a
// client cannot make the server hold more than one request. The connection ends after a refusal,
// an aborted response, a timeout, `connection: close`, or when the server drains.
#pragma once

#include <memory>
#include <string>

#include "http/h1_wire.h"
#include "http/h2_connection.h"
#include "http/server_core.h"
#include "http/server_exchange.h"

namespace atl::http {

class ServerConnection {
 public:
  // `fd` is the socket under the stream.
  ServerConnection(ServerCore& core, std::unique_ptr<io::Stream> stream, int fd);
  Task<> serve();
  // The server drains: ends the wait for a next request, or tells a WebSocket.
  void close_if_idle();

 private:
  Task<> serve_http1();
  Task<> serve_http2();
  // False when no request came: closed, timed out, refused (and answered).
  Task<bool> next_request(bool first);
  Task<bool> wait_for_bytes(Duration timeout);
  // True when the connection can carry another request.
  Task<bool> serve_request();
  // The handler has returned: closes the socket properly when it did not.
  Task<> end_websocket(WebSocketLink& link, bool failed);
  Task<> answer_failure(ServerExchange& exchange, const Result<>& handled);
  Task<> refuse(Refusal refusal);
  bool has_unread_bytes() const;
  // Lets a client that is still sending read our last answer before the kernel resets it.
  Task<> linger();
  Task<> discard_input();
  void reset_on_close();

  ServerCore& core_;
  std::unique_ptr<io::Stream> stream_;
  const int fd_;
  Http1Wire wire_;
  std::string peer_;
  Instant head_began_;  // of the request under way
  CancelState* idle_ = nullptr;
  Http2Connection* http2_ = nullptr;
  ServerExchange* exchange_ = nullptr;  // under way
};

}  // namespace atl::http
