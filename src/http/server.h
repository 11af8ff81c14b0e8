// The HTTP server: accepts connections, reads requests through the strictness gate, hands each to
// one handler as an Exchange, keeps connections alive, enforces limits, drains on shutdown.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/metrics.h"
#include "http/message.h"
#include "http/websocket.h"
#include "io/foreign_fd.h"
#include "io/reactor.h"
#include "io/stream.h"

namespace atl::io {
class FileSender;
}
namespace atl::tls {
class Context;
}

namespace atl::http {

// The header that asks where the time went, and that tells it once the Trace of the request may be
// reported.
inline constexpr std::string_view kTimingHeader = "x-atoll-timing";

struct ServerLimits {
  std::size_t header_bytes = std::size_t{64} * 1024;
  std::size_t header_count = 128;
  std::size_t connections = std::size_t{16} * 1024;
  Duration header_timeout = std::chrono::seconds{15};  // of a head; of a TLS handshake
  Duration idle_timeout = std::chrono::seconds{75};    // between requests
  Duration stall_timeout = std::chrono::seconds{60};   // one read or write of a body
};

struct ServerOptions {
  const tls::Context* tls = nullptr;  // outlives the server; without: plain HTTP
  io::FileSender* files = nullptr;    // outlives the server; without: bodies are copied
};

// One request and its answer. Exactly one of respond(), start()/write()*/finish() or
// accept_websocket().
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  virtual Body& body() = 0;
  virtual Task<> respond(Response response) = 0;
  // With a length: Content-Length, and exactly that many bytes must follow. Without: chunked.
  virtual Task<> start(int status, Headers headers, std::optional<std::uint64_t> length) = 0;
  virtual Task<> write(std::string_view bytes) = 0;
  // Whether send_file() can carry a body here now: HTTP/1 without TLS, and not too many at a time,
  // neither of all nor of this owner. It is a promise, kept until this exchange ends or lets it go.
  virtual bool reserve_file(std::string_view /*owner*/) { return false; }
  virtual void release_file() {}
  // Like write(), the next `length` bytes of a body with a length, straight from a file that may be
  // a stranger's (io/file_sender.h). Nothing is copied. REQUIRES: reserved.
  struct FilePart {
    io::ForeignFd file;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t* sent = nullptr;  // counts what went out, also of a part that fails
  };
  virtual Task<> send_file(FilePart part);
  virtual Task<> finish() = 0;
  virtual bool started() const = 0;
  // Ends when the client has closed its side: lets a handler that waits for something else notice
  // that nobody is waiting any more. Behind a next request that was sent already an end is not
  // seen. Cancel it before responding.
  virtual Task<> client_gone() = 0;
  // Set once the server drains: an answer without an end of its own must break off then, or the
  // server would wait for it.
  virtual Event& server_stops() = 0;
  // Makes the connection a WebSocket, when the request asks for one; else fails with
  // kInvalidArgument and the request is still to be answered. The socket must not outlive the
  // exchange. When the handler returns without having closed it, the server does.
  virtual Task<std::unique_ptr<WebSocket>> accept_websocket(WebSocketOptions options);
  virtual const std::string& peer() const = 0;  // "127.0.0.1:4711"
};

// A handler that returns without having answered, or with an error before start(), makes the
// server answer 500; an error after start() aborts the connection so the client notices.
using Handler = std::function<Task<>(Exchange&)>;

class Server {
 public:
  Server(io::Reactor& reactor, Fd listening, Handler handler, ServerLimits limits, Metrics& metrics,
         ServerOptions options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until cancelled or drained. Every connection is a child of this task.
  Task<> run();
  // Stops accepting, closes idle connections, tells endless answers, lets requests under way
  // finish; run() then returns.
  void drain();
  std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::http
