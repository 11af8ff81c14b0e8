// One connection of a client, and the head of a request on it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/client.h"
#include "http/h1_wire.h"

namespace atl::http {

struct ClientConnection {
  ClientConnection(std::unique_ptr<io::Stream> s, int socket, bool is_tls)
      : stream(std::move(s)),
        fd(socket),
        secure(is_tls),
        wire(*stream, {.role = Role::kResponse}) {}

  // The server sent something or closed: between requests that means the connection is spent.
  // (On TLS it may have been a session ticket only; that costs a new connection.)
  bool has_news() const;
  // During an upload: the answer is already here. On TLS nobody can tell without reading.
  bool answered_early() const { return !secure && has_news(); }

  std::unique_ptr<io::Stream> stream;
  const int fd;  // the socket under the stream
  const bool secure;
  Http1Wire wire;
};

Task<std::unique_ptr<ClientConnection>> connect_client(io::Reactor& reactor, const Url& url,
                                                       const tls::Context* tls);

// `framing` is complete header lines, or empty.
Result<std::string> make_request_head(const Url& url, std::string_view method,
                                      std::string_view path, const Headers& headers,
                                      std::string_view framing);

Task<std::unique_ptr<WebSocket>> upgrade_to_websocket(std::unique_ptr<ClientConnection> connection,
                                                      Url url, std::string path, Headers headers,
                                                      WebSocketOptions options);

}  // namespace atl::http
