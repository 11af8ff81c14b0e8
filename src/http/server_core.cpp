#include "http/server_core.h"

#include "base/log.h"
#include "base/strings.h"

namespace atl::http {
namespace {

Counter& responses(Metrics& metrics, char digit) {
  return metrics.counter("atoll_http_responses_total", "Responses by class of status",
                         concat("class=\"", digit, "xx\""));
}

}  // namespace

ServerMetrics::ServerMetrics(Metrics& metrics)
    : connections_open(metrics.gauge("atoll_http_connections_open", "Open client connections")),
      connections_max(metrics.gauge("atoll_http_connections_max", "Limit of client connections")),
      connections(metrics.counter("atoll_http_connections_total", "Connections accepted")),
      refusals(metrics.counter("atoll_http_refusals_total", "Requests the HTTP gate refused")),
      websockets_open(metrics.gauge("atoll_http_websockets_open", "Open WebSockets")),
      websockets(metrics.counter("atoll_http_websockets_total", "WebSockets accepted")),
      tls_handshakes(metrics.counter("atoll_http_tls_handshakes_total", "TLS handshakes done")),
      tls_failures(metrics.counter("atoll_http_tls_failures_total", "TLS handshakes failed")),
      http2_streams_open(metrics.gauge("atoll_http2_streams_open", "HTTP/2 requests under way")),
      http2_connections(metrics.counter("atoll_http2_connections_total", "HTTP/2 connections")),
      http2_streams(metrics.counter("atoll_http2_streams_total", "HTTP/2 requests")),
      http2_violations(metrics.counter("atoll_http2_violations_total",
                                       "HTTP/2 connections ended for breaking the rules")),
      received_bytes(metrics.counter("atoll_http_received_bytes_total", "Bytes from clients")),
      sent_bytes(metrics.counter("atoll_http_sent_bytes_total", "Bytes to clients")),
      responses_by_class{&responses(metrics, '2'), &responses(metrics, '3'),
                         &responses(metrics, '4'), &responses(metrics, '5')},
      registry(metrics) {}

Response error_response(int status, std::string_view code, std::string_view message) {
  std::string body = "{\"error\":{\"code\":";
  append_json_string(body, code);
  body += ",\"message\":";
  append_json_string(body, message);
  body += "}}";
  return {status, {{"content-type", "application/json"}}, std::move(body)};
}

Response failure_response(const Request& request, const Result<>& handled) {
  if (handled) {
    LOG_ERROR("a request was not answered", {"method", request.method}, {"path", request.path});
    return error_response(500, "internal", "no answer was made");
  }
  const Error& error = handled.error();
  // The one failure that HTTP has a status of its own for.
  const int status = error.reason == kClientStalled ? 408 : code_http_status(error.code);
  return error_response(status, code_name(error.code), error.message);
}

void ServerMetrics::count_response(int status) {
  CHECK(status >= 200 && status <= 599);
  responses_by_class[static_cast<std::size_t>(status / 100 - 2)]->add();
}

void ServerMetrics::observe(const Trace& trace) {
  if (trace.operation() == Operation::kOther) {
    return;
  }
  auto& histograms = steps[static_cast<std::size_t>(trace.operation())];
  for (std::size_t i = 0; i < kSteps; ++i) {
    const auto step = static_cast<Step>(i);
    if (!trace.has(step)) {
      continue;
    }
    if (histograms[i] == nullptr) {
      histograms[i] =
          &registry.histogram("atoll_http_step_seconds", "Where the time of requests goes",
                              concat("operation=\"", operation_name(trace.operation()),
                                     "\",step=\"", step_name(step), "\""));
    }
    histograms[i]->observe_seconds(std::chrono::duration<double>(trace.spent(step)).count());
  }
}

const std::string& ServerCore::date_line() {
  const std::time_t now = std::time(nullptr);
  if (now != date_seconds_) {
    date_seconds_ = now;
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[64];
    // The C locale's English names are what the RFC asks for; the daemon never calls setlocale.
    date_line_ = {text,
                  std::strftime(text, sizeof text, "date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts)};
  }
  return date_line_;
}

}  // namespace atl::http
