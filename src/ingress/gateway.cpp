#include "ingress/gateway.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "ingress/counted.h"
#include "ingress/function_worker.h"
#include "ingress/route_match.h"

namespace atl::ingress {
namespace {

using control::Service;
using control::ServiceRoute;

http::Response answer(int status, std::string_view code, std::string_view message) {
  const Json body = Json::object(
      {{"success", false}, {"error", Json::object({{"code", code}, {"message", message}})}});
  return {
      status, {{"content-type", "application/json"}, {"cache-control", "no-store"}}, body.dump()};
}

// What a visitor of a service is told about a failure between us and it.
int status_of(const Error& error) {
  if (error.reason == "request_too_large") {
    return 413;
  }
  if (error.reason == "port_closed" || error.reason == "malformed_message" ||
      error.reason == "closed" || error.reason == "service_ended") {
    return 502;
  }
  switch (error.code) {
    case Code::kDeadlineExceeded:
      return 504;
    case Code::kInvalidArgument:
      return 400;
    case Code::kNotFound:
      return 404;
    default:
      return 503;
  }
}

std::string_view code_of(int status) {
  switch (status) {
    case 400:
      return "bad_request";
    case 404:
      return "not_found";
    case 413:
      return "request_too_large";
    case 502:
      return "bad_gateway";
    case 504:
      return "timeout";
    default:
      return "unavailable";
  }
}

Duration timeout_of(const Service& service, const ServiceRoute& route) {
  if (service.runtime == Service::Runtime::kFunction) {
    const std::int64_t seconds =
        route.timeout_seconds > 0 ? route.timeout_seconds : kFunctionSeconds;
    return std::chrono::seconds{std::min(seconds, kMaxFunctionSeconds)};
  }
  return std::chrono::seconds{route.timeout_seconds};
}

}  // namespace

Error between_us(Error error) {
  if (error.code == Code::kUnavailable && error.reason != "port_closed" &&
      error.reason != "malformed_message") {
    return {Code::kUnavailable, "the service broke the connection off", "closed"};
  }
  return error;
}

Gateway::Gateway(Parts parts)
    : parts_(std::move(parts)),
      requests_(parts_.metrics.counter("atoll_ingress_requests_total", "Requests for services")),
      refusals_(parts_.metrics.counter("atoll_ingress_refusals_total",
                                       "Requests for services that were not passed on")),
      bytes_in_(parts_.metrics.counter("atoll_ingress_received_bytes_total",
                                       "Bytes of bodies passed to services")),
      bytes_out_(parts_.metrics.counter("atoll_ingress_sent_bytes_total",
                                        "Bytes of bodies passed from services")) {}

Task<> Gateway::handle(http::Exchange& exchange, const http::Handler& api) {
  const http::Request& request = exchange.request();
  auto target = control::find_target(parts_.names, request.headers.get("host"), request.path);
  if (!target) {
    co_return co_await api(exchange);
  }
  Visit visit;
  visit.target = *std::move(target);
  visit.sandbox_id = visit.target.sandbox_id;
  visit.path = request.path.substr(visit.target.prefix.size());
  visit.began = (co_await current_context()).loop->now();
  visit.began_at = parts_.clock.now();
  requests_.add();
  auto served = co_await serve(exchange, visit);
  bytes_in_.add(visit.traffic.bytes_in);
  bytes_out_.add(visit.traffic.bytes_out);
  record(exchange, visit);
  co_return std::move(served);
}

Task<> Gateway::refuse(http::Exchange& exchange, Visit& visit, int status, std::string_view code,
                       std::string message, http::Headers extra) {
  refusals_.add();
  visit.reason = message;
  visit.traffic.status = status;
  http::Response response = answer(status, code, message);
  for (const auto& [name, value] : extra.lines()) {
    response.headers.add(name, value);
  }
  co_return co_await exchange.respond(std::move(response));
}

Task<> Gateway::refuse(http::Exchange& exchange, Visit& visit, const Error& error,
                       http::Headers extra) {
  const int status = status_of(error);
  visit.outcome = egress::Outcome::kFailed;
  if (status == 503) {
    extra.add("retry-after", "1");
  }
  // Why a sandbox does not run is its owner's business.
  const bool told = status != 503 || error.reason == "sandbox_paused";
  co_return co_await refuse(exchange, visit, status, code_of(status),
                            told ? error.message : "the service is not available at the moment",
                            std::move(extra));
}

Task<> Gateway::serve(http::Exchange& exchange, Visit& visit) {
  const http::Request& request = exchange.request();
  if (visit.path == kPreviewLinkPath) {
    co_return co_await open_preview(exchange, visit);
  }
  if (auto preview = find_preview(request, visit)) {
    co_return co_await serve_preview(exchange, visit, *std::move(preview));
  }
  const auto services = parts_.services.find(visit.sandbox_id);
  RouteMatch match;
  if (services) {
    match =
        match_request(*services, visit.target.port, visit.path.empty() ? "/" : visit.path, request);
  }
  if (match.status == 404) {
    co_return co_await refuse(exchange, visit, 404, "not_found", "there is nothing here");
  }
  visit.team_id = services->team_id;
  if (match.status == 400) {
    co_return co_await refuse(exchange, visit, 400, "bad_request",
                              "the path can be read in more than one way");
  }
  if (match.status == 405) {
    co_return co_await refuse(exchange, visit, 405, "method_not_allowed",
                              concat("use ", match.allow), {{"allow", match.allow}});
  }
  visit.service_id = match.service->id;
  visit.route_id = match.route->id;
  co_return co_await serve_route(exchange, visit, services, *match.service, *match.route);
}

// REQUIRES: service and route are of `services`, which is kept.
Task<> Gateway::serve_route(http::Exchange& exchange, Visit& visit,
                            control::SandboxServicesPtr services, const Service& service,
                            const ServiceRoute& route) {
  const http::Request& request = exchange.request();
  http::Headers extra;
  if (route.cors) {
    auto cors = judge_cors(*route.cors, request);
    if (cors.preflight) {
      visit.outcome = egress::Outcome::kAllowed;
      visit.traffic.status = cors.allowed ? 204 : 403;
      co_return co_await exchange.respond({visit.traffic.status, std::move(cors.headers), {}});
    }
    extra = std::move(cors.headers);
  }
  if (!is_authorized(route.auth, request.headers)) {
    if (route.auth.mode == control::RouteAuth::Mode::kBearer) {
      extra.add("www-authenticate", "Bearer");
    }
    co_return co_await refuse(exchange, visit, 401, "unauthorized",
                              "this service asks for a credential", std::move(extra));
  }
  if (route.rate) {
    const std::string key = concat(visit.sandbox_id, "/", service.id, "/", route.id);
    const Instant now = (co_await current_context()).loop->now();
    const auto wait = rates_.take(key, *route.rate, now);
    if (wait.count() > 0) {
      extra.add("retry-after", std::to_string((wait.count() + 999) / 1000));
      co_return co_await refuse(exchange, visit, 429, "rate_limited", "too many requests",
                                std::move(extra));
    }
  }
  if (visit.path.empty() && (request.method == "GET" || request.method == "HEAD")) {
    // Without the slash, relative links of the page would lead elsewhere.
    const std::string query = request.query.empty() ? "" : concat("?", request.query);
    visit.outcome = egress::Outcome::kAllowed;
    visit.traffic.status = 308;
    extra.add("location", concat(visit.target.prefix, "/", query));
    co_return co_await exchange.respond({308, std::move(extra), {}});
  }
  co_return co_await pass_on(exchange, visit, services, service, route, std::move(extra));
}

// Waits for a sandbox that is being resumed; one resume serves all who wait.
Task<> Gateway::wake(const Visit& visit, bool may_resume) {
  CO_TRY(const auto row, parts_.sandboxes.get(visit.team_id, visit.sandbox_id));
  if (row.status == control::SandboxStatus::kPaused && !(may_resume && row.auto_resume)) {
    co_return fail(Code::kUnavailable, "the sandbox of this service is paused", "sandbox_paused");
  }
  CO_TRY_DO(co_await parts_.sandboxes.running(visit.team_id, visit.sandbox_id));
  co_return ok();
}

Task<Forward> Gateway::prepare(http::Exchange& exchange, Visit& visit,
                               control::SandboxServicesPtr services, const Service& service,
                               const ServiceRoute& route) {
  const http::Request& request = exchange.request();
  const bool function = service.runtime == Service::Runtime::kFunction;
  CO_TRY_DO(co_await wake(visit, route.resume));
  if (parts_.services.find(visit.sandbox_id) != services) {
    // Replaced while it woke up: what was decided by the old ones does not count.
    co_return fail(Code::kUnavailable, "the services of the sandbox have changed");
  }
  std::uint16_t port = service.port;
  if (service.is_started()) {
    CO_TRY(port, co_await parts_.runner.ensure(services, service));
  }
  CO_TRY(const auto row, parts_.sandboxes.get(visit.team_id, visit.sandbox_id));
  const std::string path = rewrite_path(route, visit.path.empty() ? "/" : visit.path);
  Forward forward;
  forward.upstream = {.team_id = visit.team_id,
                      .sandbox_id = visit.sandbox_id,
                      .generation = row.generation,
                      .port = port};
  forward.method = request.method;
  forward.path = request.query.empty() ? path : concat(path, "?", request.query);
  forward.fields = request_fields(request, {.path = forward.path,
                                            .peer = exchange.peer(),
                                            .scheme = parts_.names.scheme,
                                            .prefix = visit.target.prefix,
                                            .auth = &route.auth});
  forward.view = {.prefix = visit.target.prefix, .own_cors = route.cors.has_value()};
  forward.timeout = timeout_of(service, route);
  if (function) {
    using std::chrono::duration_cast;
    using std::chrono::milliseconds;
    forward.fields.add("x-atoll-route", route.id);
    forward.fields.add("x-atoll-timeout-ms",
                       std::to_string(duration_cast<milliseconds>(forward.timeout).count()));
    // The worker tells by itself that it took too long; this is for one that cannot.
    forward.timeout += std::chrono::seconds{2};
    forward.max_bytes = kMaxFunctionRequestBytes;
  }
  co_return std::move(forward);
}

Task<> Gateway::pass_on(http::Exchange& exchange, Visit& visit,
                        control::SandboxServicesPtr services, const Service& service,
                        const ServiceRoute& route, http::Headers extra) {
  const bool function = service.runtime == Service::Runtime::kFunction;
  const Counted in_sandbox{busy_, visit.sandbox_id};
  const Counted in_service{busy_, concat(visit.sandbox_id, "/", service.id)};
  const std::int64_t most = function && service.function->max_concurrency > 0
                                ? service.function->max_concurrency
                                : control::kMaxFunctionConcurrency;
  if (in_sandbox.count() > kMaxExchangesPerSandbox ||
      (function && in_service.count() > static_cast<std::size_t>(most))) {
    extra.add("retry-after", "1");
    co_return co_await refuse(exchange, visit, 429, "too_many_requests",
                              "too many requests are under way", std::move(extra));
  }
  const auto use = parts_.sandboxes.use(visit.team_id, visit.sandbox_id);
  auto forward = co_await prepare(exchange, visit, services, service, route);
  if (!forward) {
    co_return co_await refuse(exchange, visit, forward.error(), std::move(extra));
  }
  visit.outcome = egress::Outcome::kAllowed;
  forward->extra = extra;
  auto passed = wants_websocket(exchange.request())
                    ? co_await forward_websocket(exchange, parts_.upstreams, *std::move(forward),
                                                 visit.traffic)
                    : co_await forward_request(exchange, parts_.upstreams, *std::move(forward),
                                               visit.traffic);
  if (!passed && function && passed.error().code == Code::kDeadlineExceeded) {
    parts_.runner.suspect(services, service);
  }
  if (!passed && !exchange.started() && passed.error().code != Code::kCancelled) {
    co_return co_await refuse(exchange, visit, between_us(passed.error()), std::move(extra));
  }
  if (!passed) {
    visit.outcome = egress::Outcome::kFailed;
    visit.reason = passed.error().message;
  }
  co_return std::move(passed);
}

// The path without its query: that may hold a secret.
void Gateway::record(const http::Exchange& exchange, const Visit& visit) const {
  const http::Request& request = exchange.request();
  const auto took = parts_.upstreams.now() - visit.began;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  LOG_INFO("ingress", {"sandbox", visit.team_id.empty() ? "" : visit.sandbox_id},
           {"service", visit.service_id}, {"route", visit.route_id}, {"method", request.method},
           {"status", visit.traffic.status}, {"in", visit.traffic.bytes_in},
           {"out", visit.traffic.bytes_out}, {"ms", ms});
  if (parts_.flows == nullptr || visit.team_id.empty()) {
    return;
  }
  egress::FlowRecord flow;
  flow.id = random_hex(24);
  flow.sandbox_id = visit.sandbox_id;
  flow.team_id = visit.team_id;
  flow.began_at = visit.began_at;
  flow.duration_ms = ms;
  flow.kind = "ingress";
  flow.protocol = egress::AppProtocol::kHttp;
  flow.source = exchange.peer();
  flow.destination = concat("127.0.0.1:", visit.target.port);
  flow.name = to_lower(request.headers.get("host"));
  flow.outcome = visit.outcome;
  flow.origin = "service";
  flow.rule = concat(visit.service_id, "/", visit.route_id);
  flow.reason = visit.reason;
  std::string operation =
      concat(request.method, " ", to_valid_utf8(visit.path), " ", visit.traffic.status);
  operation.resize(std::min(operation.size(), egress::kMaxOperationBytes));
  flow.operations.push_back(std::move(operation));
  flow.bytes_in = visit.traffic.bytes_in;
  flow.bytes_out = visit.traffic.bytes_out;
  parts_.flows->record(flow);
}

}  // namespace atl::ingress
