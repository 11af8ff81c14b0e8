// Health, readiness, metrics and metadata.
#include "base/strings.h"
#include "guest/wire.h"
#include "service/native/envelope.h"
#include "service/native/routes.h"

namespace atl::service::native {
namespace {

Task<> respond_metadata(NativeExchange& exchange, const control::Sandboxes& sandboxes) {
  Json capabilities = Json::object({{"interpreter_fork", guest::kWarmForks},
                                    {"memory_dump", sandboxes.dumps_memory()},
                                    {"egress", sandboxes.has_egress()}});
  if (!sandboxes.dumps_memory()) {
    capabilities.set("memory_dump_reason", sandboxes.dumps_memory_reason());
  }
  if (!sandboxes.has_egress()) {
    capabilities.set("egress_reason", sandboxes.egress_reason());
  }
  return exchange.respond(
      data_response(200, Json::object({{"gateway_mode", "direct"},
                                       {"service", "atoll"},
                                       {"dialects", Json{Json::Array{"native", "e2b"}}},
                                       {"capabilities", std::move(capabilities)}})));
}

Task<> respond_metrics(NativeExchange& exchange, const Metrics& metrics) {
  http::Response response;
  response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.body = metrics.render();
  return exchange.respond(std::move(response));
}

}  // namespace

// In the envelope and beside it, because clients of both kinds exist.
Task<> MetaRoutes::respond_health(NativeExchange& exchange, int status, std::string_view word) {
  const std::int64_t seconds = clock_.now() / 1000;
  Json data = Json::object({{"status", word}, {"timestamp", seconds}});
  Json body = Json::object({{"success", status == 200}, {"status", word}, {"timestamp", seconds}});
  body.set("data", std::move(data));
  http::Response response;
  response.status = status;
  response.headers.set("Content-Type", "application/json");
  response.body = body.dump();
  return exchange.respond(std::move(response));
}

void MetaRoutes::add_to(RouteTable& table) {
  table.add_public_get("/healthz", [this](NativeExchange& exchange, const auto&) {
    return respond_health(exchange, 200, "ok");
  });
  table.add_public_get("/readyz", [this](NativeExchange& exchange, const auto&) {
    const bool ready = sandboxes_.ready();
    return respond_health(exchange, ready ? 200 : 503, ready ? "ready" : "not_ready");
  });
  table.add_public_get("/metrics", [this](NativeExchange& exchange, const auto&) {
    return respond_metrics(exchange, metrics_);
  });
  table.add_public_get("/metadata", [this](NativeExchange& exchange, const auto&) {
    return respond_metadata(exchange, sandboxes_);
  });
}

}  // namespace atl::service::native
