// An HTTP/1.1 client over one connection, used by the CLI and tests (and later by the proxies).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/message.h"
#include "http/websocket.h"
#include "io/stream.h"

namespace atl::tls {
class Context;
}

namespace atl::http {

struct Url {
  std::string host;
  std::uint16_t port = 80;
  std::string base_path;  // without a trailing slash
  bool secure = false;    // https
  // Dialled instead of the host, which still names the certificate and the Host header: for callers
  // that resolve names themselves, because they decide by the address.
  std::string address;
};
Result<Url> parse_url(std::string_view text);  // http or https
// What the client sends as Host: without a port that the scheme implies.
std::string host_field(const Url& url);

// Where a request body comes from: fills the buffer, returns 0 at the end.
using BodySource = std::function<Task<std::size_t>(std::span<char>)>;

class ClientResponse {
 public:
  virtual ~ClientResponse() = default;
  virtual int status() const = 0;
  virtual const Headers& headers() const = 0;
  virtual Body& body() = 0;
};

class Client {
 public:
  // Connects lazily and again when the kept-alive connection has gone.
  // `tls` is needed for https and outlives the client.
  Client(io::Reactor& reactor, Url url, const tls::Context* tls = nullptr);
  ~Client();
  // `headers` gets Host and framing added. The response must be read to its end or destroyed
  // (which closes the connection) before the next call. `path` is percent-encoded already.
  Task<std::unique_ptr<ClientResponse>> send(std::string method, std::string path, Headers headers,
                                             std::string body = {});
  // Streams a body; with a length as Content-Length, without as chunked.
  Task<std::unique_ptr<ClientResponse>> send_stream(std::string method, std::string path,
                                                    Headers headers,
                                                    std::optional<std::uint64_t> length,
                                                    BodySource source);
  // A WebSocket on a connection of its own. When the server answers anything but 101 the error has
  // the code of that status and the answer's body as its message.
  Task<std::unique_ptr<WebSocket>> connect_websocket(std::string path, Headers headers,
                                                     WebSocketOptions options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::http
