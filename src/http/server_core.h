// What all connections of one server share. Loop thread only.
#pragma once

#include <array>
#include <ctime>
#include <string>

#include "base/trace.h"
#include "http/server.h"

namespace atl::http {

struct ServerMetrics {
  explicit ServerMetrics(Metrics& metrics);
  void count_response(int status);
  // The steps of an answered request, when it was of a kind that is kept.
  void observe(const Trace& trace);

  Gauge& connections_open;
  Gauge& connections_max;
  Counter& connections;
  Counter& refusals;
  Gauge& websockets_open;
  Counter& websockets;
  Counter& tls_handshakes;
  Counter& tls_failures;
  Gauge& http2_streams_open;
  Counter& http2_connections;
  Counter& http2_streams;
  Counter& http2_violations;
  Counter& received_bytes;
  Counter& sent_bytes;
  std::array<Counter*, 4> responses_by_class;  // 2xx to 5xx
  Metrics& registry;
  std::array<std::array<Histogram*, kSteps>, kOperations> steps{};  // made when first used
};

// Our own plain answer, for what no handler answered.
Response error_response(int status, std::string_view code, std::string_view message);
// For a handler that returned without an answer.
Response failure_response(const Request& request, const Result<>& handled);

// The reason of errors that come from a client that stopped sending or reading.
inline constexpr std::string_view kClientStalled = "client_stalled";

class ServerCore {
 public:
  ServerCore(io::Reactor& r, Handler h, ServerLimits l, Metrics& m, ServerOptions o)
      : reactor(r), handler(std::move(h)), limits(l), tls(o.tls), files(o.files), metrics(m) {}

  // "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", formatted once per second.
  const std::string& date_line();

  io::Reactor& reactor;
  const Handler handler;
  const ServerLimits limits;
  const tls::Context* const tls;
  io::FileSender* const files;
  ServerMetrics metrics;
  bool draining = false;
  Event stops;  // when draining begins, for the answers that last

 private:
  std::time_t date_seconds_ = 0;
  std::string date_line_;
};

}  // namespace atl::http
