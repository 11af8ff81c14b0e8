// Ports of sandboxes that were made on terms (control/terms.h): open without a service, to
// everybody or to whoever has the traffic token. What a service declares is the service's all the
// same, with its routes and their rules.
#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "ingress/counted.h"
#include "ingress/gateway.h"

namespace atl::ingress {
namespace {

constexpr std::string_view kTrafficTokenHeader = "e2b-traffic-access-token";
// A server inside that was just started may need a moment until it listens.
constexpr int kMaxKnocks = 6;
constexpr Duration kKnockInterval = std::chrono::milliseconds{200};

bool declares(const control::SandboxServicesPtr& services, std::uint16_t port) {
  return services != nullptr &&
         std::ranges::any_of(services->services, [&](const control::Service& service) {
           return service.is_public && service.port == port;
         });
}

std::string host_of(std::string mask, std::uint16_t port) {
  constexpr std::string_view kPort = "${PORT}";
  for (auto at = mask.find(kPort); at != std::string::npos; at = mask.find(kPort, at)) {
    mask.replace(at, kPort.size(), std::to_string(port));
  }
  return mask;
}

PortRefusal closed_port(const OpenPort& to, std::string message) {
  return {.sandbox_id = to.sandbox_id, .port = to.port, .message = std::move(message)};
}

// Why it could not be woken.
PortRefusal asleep(const OpenPort& to, const Error& error) {
  if (error.reason == "sandbox_paused" && to.terms->auto_resume) {
    return {403, to.sandbox_id, {}, "The sandbox is paused without its memory; resume it first"};
  }
  if (error.reason == "sandbox_paused") {
    return {502, to.sandbox_id, {}, "The sandbox is paused"};
  }
  if (error.code == Code::kAborted) {
    return {409, to.sandbox_id, {}, "The sandbox is changing its state; try again"};
  }
  if (error.code == Code::kResourceExhausted) {
    return {429, to.sandbox_id, {}, "The sandbox cannot be resumed at the moment"};
  }
  return {502, to.sandbox_id, {}, "The sandbox was not found"};
}

PortRefusal broken(const OpenPort& to, const Error& error) {
  if (error.reason == "port_closed") {
    return closed_port(to, "The sandbox is running but port is not open");
  }
  if (error.code == Code::kInvalidArgument) {
    return {400, to.sandbox_id, to.port, error.message};
  }
  return closed_port(to, "The service on this port broke the connection off");
}

}  // namespace

Task<> Gateway::refuse_port(http::Exchange& exchange, Visit& visit, PortRefusal refusal) {
  refusals_.add();
  visit.reason = refusal.message;
  visit.traffic.status = refusal.status;
  return exchange.respond(refusal_response(exchange.request(), refusal));
}

Task<> Gateway::serve_port(http::Exchange& exchange, OpenPort to) {
  Visit visit;
  visit.target = {.sandbox_id = to.sandbox_id, .port = to.port, .prefix = {}};
  visit.sandbox_id = to.sandbox_id;
  visit.path = exchange.request().path;
  visit.began = (co_await current_context()).loop->now();
  visit.began_at = parts_.clock.now();
  requests_.add();
  const bool declared = to.terms == nullptr ||
                        declares(parts_.services.find(to.sandbox_id), to.port) ||
                        visit.path == kPreviewLinkPath || find_preview(exchange.request(), visit);
  auto served = declared ? co_await serve(exchange, visit)
                         : co_await admit_to_port(exchange, visit, std::move(to));
  bytes_in_.add(visit.traffic.bytes_in);
  bytes_out_.add(visit.traffic.bytes_out);
  record(exchange, visit);
  co_return std::move(served);
}

Task<> Gateway::admit_to_port(http::Exchange& exchange, Visit& visit, OpenPort to) {
  visit.team_id = to.team_id;
  visit.service_id = "port";
  visit.route_id = std::to_string(to.port);
  const http::Headers& headers = exchange.request().headers;
  if (!to.terms->public_traffic &&
      !equal_constant_time(headers.get(kTrafficTokenHeader),
                           parts_.tokens.traffic_token(to.sandbox_id))) {
    const bool given = headers.has(kTrafficTokenHeader);
    co_return co_await refuse_port(
        exchange, visit,
        {403,
         to.sandbox_id,
         {},
         concat("Sandbox is secured with traffic access token. Token header '", kTrafficTokenHeader,
                given ? "' is invalid" : "' is missing")});
  }
  const Counted in_sandbox{busy_, to.sandbox_id};
  if (in_sandbox.count() > kMaxExchangesPerSandbox) {
    co_return co_await refuse_port(exchange, visit,
                                   {429, to.sandbox_id, {}, "Too many requests are under way"});
  }
  const auto use = parts_.sandboxes.use(to.team_id, to.sandbox_id);
  const auto awake = co_await wake_on_terms(to.team_id, to.sandbox_id);
  if (!awake) {
    visit.outcome = egress::Outcome::kFailed;
    co_return co_await refuse_port(exchange, visit, asleep(to, awake.error()));
  }
  visit.outcome = egress::Outcome::kAllowed;
  auto passed =
      co_await knock(exchange, visit, port_forward(exchange, visit, to, awake->generation));
  if (!passed) {
    visit.outcome = egress::Outcome::kFailed;
    visit.reason = passed.error().message;
  }
  if (!passed && !exchange.started() && passed.error().code != Code::kCancelled) {
    co_return co_await refuse_port(exchange, visit, broken(to, passed.error()));
  }
  co_return std::move(passed);
}

Task<control::Sandbox> Gateway::wake_on_terms(std::string team_id, std::string sandbox_id) {
  CO_TRY_DO(co_await parts_.terms.wake(team_id, sandbox_id));
  CO_TRY_DO(co_await parts_.sandboxes.running(team_id, sandbox_id));
  co_return parts_.sandboxes.get(team_id, sandbox_id);
}

Forward Gateway::port_forward(const http::Exchange& exchange, const Visit& visit,
                              const OpenPort& to, std::int64_t generation) const {
  const http::Request& request = exchange.request();
  const auto& https = to.terms->https_ports;
  Forward forward;
  forward.upstream = {.team_id = to.team_id,
                      .sandbox_id = to.sandbox_id,
                      .generation = generation,
                      .port = to.port,
                      .secure = std::ranges::find(https, to.port) != https.end()};
  forward.method = request.method;
  forward.path = request.query.empty() ? visit.path : concat(visit.path, "?", request.query);
  const http::Headers all = request_fields(
      request,
      {.path = forward.path, .peer = exchange.peer(), .scheme = parts_.names.scheme, .prefix = {}});
  // What opens the sandbox is not for what runs in it.
  const auto is_ours = [&](std::string_view name, std::string_view value) {
    return name == kTrafficTokenHeader || name == "e2b-sandbox-id" || name == "e2b-sandbox-port" ||
           (name == "x-access-token" &&
            equal_constant_time(value, parts_.tokens.agent_token(to.sandbox_id)));
  };
  for (const auto& [name, value] : all.lines()) {
    if (name == "host" && !to.terms->request_host.empty()) {
      forward.fields.add(name, host_of(to.terms->request_host, to.port));
    } else if (!is_ours(name, value)) {
      forward.fields.add(name, value);
    }
  }
  return forward;
}

// Nothing of the request is read before somebody has opened.
Task<> Gateway::knock(http::Exchange& exchange, Visit& visit, Forward forward) {
  const bool socket = wants_websocket(exchange.request());
  for (int knocks = 1;; ++knocks) {
    auto passed =
        socket ? co_await forward_websocket(exchange, parts_.upstreams, forward, visit.traffic)
               : co_await forward_request(exchange, parts_.upstreams, forward, visit.traffic);
    if (passed || passed.error().reason != "port_closed" || exchange.started() ||
        knocks == kMaxKnocks) {
      co_return std::move(passed);
    }
    CO_TRY_DO(co_await sleep_for(kKnockInterval));
  }
}

}  // namespace atl::ingress
