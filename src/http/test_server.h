// A server on loopback for tests, a client that speaks raw bytes to it, and a server that speaks
// raw bytes to our client.
#pragma once

#include "http/client.h"
#include "http/server.h"
#include "io/file_sender.h"
#include "io/offload.h"

namespace atl::http {

class TestServer {
 public:
  explicit TestServer(Handler handler, ServerLimits limits = {}, ServerOptions options = {})
      : server_(reactor_, *io::Listener::bind_tcp("127.0.0.1", 0), std::move(handler), limits,
                metrics_, {.tls = options.tls, .files = &files_}) {}

  io::Reactor& reactor() { return reactor_; }
  Metrics& metrics() { return metrics_; }
  Server& server() { return server_; }
  Url url() const { return {.host = "127.0.0.1", .port = server_.port(), .base_path = {}}; }
  std::int64_t connections_open() {
    return metrics_.gauge("atoll_http_connections_open", "").value();
  }
  std::uint64_t connections_seen() {
    return metrics_.counter("atoll_http_connections_total", "").value();
  }

  // Runs `task` beside the server, then drains it. The deadline only keeps a hung test from
  // hanging the suite.
  template <class T>
  Result<T> run(Task<T> task) {
    return reactor_.run_until_complete(beside(server_, std::move(task)));
  }

 private:
  template <class T>
  static Task<T> beside(Server& server, Task<T> task) {
    Scope scope{co_await current_context()};
    scope.spawn("server", server.run());
    auto result = co_await with_deadline(std::chrono::seconds{100}, std::move(task));
    server.drain();
    (void)co_await scope.join();
    co_return std::move(result);
  }

  io::Reactor reactor_;
  Metrics metrics_;
  io::OffloadPool threads_{"bodies", 1, 64};
  io::FileSender files_{reactor_, threads_, 2, 1};
  Server server_;
};

Task<std::unique_ptr<io::FdStream>> connect_raw(TestServer& server);
// Reads until the peer closes; a reset counts as an end too.
Task<std::string> read_to_end(io::Stream& stream);
// Reads until `mark` has been seen.
Task<std::string> read_until(io::Stream& stream, std::string mark);
// What a shell command printed; its failure is an error.
Task<std::string> run_shell(io::OffloadPool& pool, std::string command);
// Sends bytes on a connection of their own and reads until the server closes it.
Task<std::string> exchange_raw(TestServer& server, std::string bytes);

}  // namespace atl::http
