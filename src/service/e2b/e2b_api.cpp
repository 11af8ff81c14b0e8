#include "service/e2b/e2b_api.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "service/e2b/entitlement.h"
#include "service/e2b/file_signature.h"

namespace atl::service::e2b {
namespace {

bool is_admin(const control::Principal& principal) {
  return std::ranges::find(principal.roles, "admin") != principal.roles.end();
}

bool is_own_port(std::uint16_t port) {
  return port == kEnvdPort || port == kInterpreterPort;
}

// A browser asks before it sends our headers, without sending them. What asks a service of a
// sandbox is for that service.
bool is_preflight(const http::Request& request, const Address& address) {
  if (request.method != "OPTIONS" || !request.headers.has("origin") ||
      !request.headers.has("access-control-request-method")) {
    return false;
  }
  switch (address.kind) {
    case Address::Kind::kNone:
      return to_lower(request.headers.get("access-control-request-headers"))
          .contains("e2b-sandbox-id");
    case Address::Kind::kSandbox:
      return is_own_port(address.port);
    default:
      return true;
  }
}

Task<> allow_any_origin(http::Exchange& exchange) {
  const auto asked = exchange.request().headers.get("access-control-request-headers");
  http::Headers headers{{"access-control-allow-origin", "*"},
                        {"access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE"},
                        {"access-control-max-age", "7200"}};
  headers.add("access-control-allow-headers", asked.empty() ? "*" : asked);
  return exchange.respond({204, std::move(headers), {}});
}

bool runs(const control::Sandbox& sandbox) {
  return sandbox.status == control::SandboxStatus::kRunning ||
         sandbox.status == control::SandboxStatus::kStarting;
}

std::string_view kind_name(Address::Kind kind) {
  switch (kind) {
    case Address::Kind::kSandbox:
      return "sandbox";
    case Address::Kind::kSigned:
      return "signed file";
    default:
      return "unmatched";
  }
}

}  // namespace

bool E2bApi::is_for_next(const Address& address) const {
  if (address.kind == Address::Kind::kNone) {
    return true;
  }
  if (address.kind != Address::Kind::kSandbox || !address.by_host || is_own_port(address.port)) {
    return false;
  }
  // Services of sandboxes that E2B's clients know nothing of.
  const auto sandbox = find_sandbox(address.sandbox_id);
  const bool plain = !address.sandbox_id.contains('-');
  return !port_ || (sandbox ? !parts_.terms.find(sandbox->id) : !plain);
}

Task<> E2bApi::handle(http::Exchange& exchange, const http::Handler& next) {
  const Address address = find_address(parts_.names, exchange.request());
  if (is_preflight(exchange.request(), address)) {
    co_return co_await allow_any_origin(exchange);
  }
  if (is_for_next(address)) {
    co_return co_await next(exchange);
  }
  TaskContext& context = co_await current_context();
  Loop& loop = *context.loop;
  const Instant begin = loop.now();
  E2bExchange own{exchange, native::choose_request_id(exchange.request()), context};
  std::string_view pattern = kind_name(address.kind);
  auto result = co_await dispatch(own, address, pattern);
  const auto outcome = result;
  if (!result && !own.started()) {
    result = co_await own.respond(
        error_response(result.error(), is_admin(own.principal()), own.request_id()));
  }
  record(own, pattern, loop.now() - begin, outcome);
  co_return std::move(result);
}

Task<> E2bApi::dispatch(E2bExchange& exchange, const Address& address, std::string_view& pattern) {
  switch (address.kind) {
    case Address::Kind::kSandbox:
      co_return co_await serve_sandbox(exchange, address.sandbox_id, address.port);
    case Address::Kind::kSigned:
      co_return co_await serve_signed(exchange);
    case Address::Kind::kBad:
      co_return fail(Code::kInvalidArgument,
                     "both headers are needed: E2b-Sandbox-Id and E2b-Sandbox-Port, a port");
    default:
      co_return co_await serve_control(exchange, pattern);
  }
}

Task<> E2bApi::serve_control(E2bExchange& exchange, std::string_view& pattern) {
  const auto& request = exchange.request();
  const auto match = routes_.match(request.method, request.path);
  if (match.handler != nullptr) {
    pattern = match.pattern;
    co_return co_await (*match.handler)(exchange, match.parameters);
  }
  // A new SDK that asks for what we have not got must not go unnoticed.
  constexpr std::size_t kMaxLoggedPathBytes = 200;
  LOG_WARN("an E2B client asks for an unknown route", {"method", request.method},
           {"path", std::string_view{request.path}.substr(0, kMaxLoggedPathBytes)},
           {"client", client_version(request.headers)});
  co_return fail(Code::kNotFound, concat("there is no ", request.method, " ",
                                         to_valid_utf8(request.path), " in this server's E2B API"));
}

std::optional<control::Sandbox> E2bApi::find_sandbox(std::string_view id) const {
  auto found = parts_.sandboxes.get_of_any_team(id);
  if (!found) {
    // Old clients append their own id.
    found = parts_.sandboxes.get_of_any_team(id.substr(0, id.rfind('-')));
  }
  return found ? std::optional{*std::move(found)} : std::nullopt;
}

SandboxTarget E2bApi::make_target(const E2bExchange& exchange, const control::Sandbox& sandbox,
                                  std::uint16_t port) const {
  const auto terms = parts_.terms.of(sandbox);
  SandboxTarget target{.sandbox = {sandbox.team_id, sandbox.id},
                       .port = port,
                       .template_name = sandbox.template_name,
                       .env = sandbox.env,
                       .terms = terms};
  const auto& defaults =
      parts_.sandboxes.templates().defaults(sandbox.template_name, sandbox.team_id);
  if (!defaults.start.shell.empty()) {
    target.user = defaults.user;  // as its last step left it
  }
  if (terms->secure) {
    target.access_token = parts_.tokens.agent_token(sandbox.id);
  }
  target.token_right =
      target.access_token.empty() ||
      equal_constant_time(exchange.request().headers.get(kAccessTokenHeader), target.access_token);
  target.entitled = is_entitled(exchange.request(), target, parts_.tokens.traffic_token(sandbox.id),
                                parts_.clock.now());
  return target;
}

// Clients take a 502 for a sandbox that is not there, and nothing else.
Task<> E2bApi::refuse_sandbox(E2bExchange& exchange, std::string id, std::string_view message) {
  const Json body =
      Json::object({{"sandboxId", to_valid_utf8(id)}, {"message", message}, {"code", 502}});
  co_return co_await exchange.respond_json(502, body);
}

Task<> E2bApi::serve_sandbox(E2bExchange& exchange, std::string id, std::uint16_t port) {
  exchange.concerns(id);
  const auto sandbox = find_sandbox(id);
  if (!sandbox) {
    co_return co_await refuse_sandbox(exchange, id, "The sandbox was not found");
  }
  exchange.concerns(sandbox->id);
  SandboxTarget target = make_target(exchange, *sandbox, port);
  if (!is_own_port(port)) {
    if (!port_) {
      co_return fail(Code::kUnimplemented, "this server passes no requests to other ports");
    }
    co_return co_await port_(exchange, target);
  }
  co_return co_await serve_target(exchange, std::move(target));
}

// Who is not entitled neither wakes it nor keeps it awake, and leaves no line in its log.
Task<control::Sandbox> E2bApi::reach(E2bExchange& exchange, const SandboxTarget& target) {
  const auto& [team_id, sandbox_id] = target.sandbox;
  if (!target.entitled) {
    co_return parts_.sandboxes.get(team_id, sandbox_id);
  }
  exchange.keep(parts_.sandboxes.use(team_id, sandbox_id));
  co_return co_await parts_.terms.wake(team_id, sandbox_id);
}

Task<> E2bApi::serve_target(E2bExchange& exchange, SandboxTarget target) {
  if (target.entitled) {
    exchange.authenticated();
  }
  auto awake = co_await reach(exchange, target);
  if (!awake &&
      (awake.error().code == Code::kNotFound || awake.error().reason == "sandbox_paused")) {
    co_return co_await refuse_sandbox(exchange, target.sandbox.sandbox_id,
                                      "The sandbox was not found");
  }
  CO_TRY_DO(awake);
  if (!runs(*awake)) {
    co_return co_await refuse_sandbox(exchange, target.sandbox.sandbox_id,
                                      "The sandbox was not found");
  }
  const TargetHandler& handler = target.port == kEnvdPort ? envd_ : interpreter_;
  if (!handler) {
    co_return fail(Code::kUnimplemented, "this server does not serve this port of sandboxes");
  }
  auto handled = co_await handler(exchange, target);
  if (target.entitled) {
    log_request(exchange, target, handled ? exchange.status() : status_of(handled.error()));
  }
  const auto after = parts_.sandboxes.get_of_any_team(target.sandbox.sandbox_id);
  if (!handled && !exchange.started() && (!after || !runs(*after))) {
    co_return co_await refuse_sandbox(exchange, target.sandbox.sandbox_id,
                                      "The sandbox is not running");
  }
  co_return std::move(handled);
}

void E2bApi::log_request(const E2bExchange& exchange, const SandboxTarget& target, int status) {
  const bool probe = exchange.request().path == "/health";
  parts_.log.add(target.sandbox.sandbox_id,
                 {.level = probe ? control::SandboxLogLine::Level::kDebug
                                 : control::SandboxLogLine::Level::kInfo,
                  .source = target.port == kEnvdPort ? "envd" : "interpreter",
                  .message = concat(exchange.request().method, " ", exchange.request().path),
                  .fields = {{"status", std::to_string(status)}}});
}

// One block of SHA-256 for each sandbox there is; their tokens are derived once.
Result<control::Sandbox> E2bApi::find_signer(const http::Request& request) {
  const auto signature = FileSignature::of(request);
  if (!signature) {
    return fail(Code::kUnauthenticated, "invalid signature");
  }
  TRY(const auto search, SignerSearch::begin(*signature, parts_.clock.now()));
  std::string signer;
  std::size_t count = 0;
  parts_.sandboxes.each([&](const control::Sandbox& sandbox) {
    ++count;
    auto known = signing_tokens_.find(sandbox.id);
    if (known == signing_tokens_.end()) {
      known = signing_tokens_.emplace(sandbox.id, parts_.tokens.agent_token(sandbox.id)).first;
    }
    if (search.is_signer(known->second)) {
      signer = sandbox.id;
    }
  });
  if (signing_tokens_.size() > 2 * count + 64) {
    signing_tokens_.clear();  // most are of sandboxes that are gone
  }
  auto sandbox = parts_.sandboxes.get_of_any_team(signer);
  if (!sandbox) {
    return fail(Code::kUnauthenticated, "invalid signature");
  }
  return *std::move(sandbox);
}

Task<> E2bApi::serve_signed(E2bExchange& exchange) {
  CO_TRY(const auto sandbox, find_signer(exchange.request()));
  exchange.concerns(sandbox.id);
  co_return co_await serve_target(exchange, make_target(exchange, sandbox, kEnvdPort));
}

void E2bApi::record(const E2bExchange& exchange, std::string_view pattern, Duration took,
                    const Result<>& result) {
  const auto& method = exchange.request().method;
  const bool known = pattern.starts_with('/');
  const std::string route =
      concat("route=\"e2b ", known ? method : "", known ? " " : "", pattern, "\"");
  parts_.metrics
      .counter("atoll_service_requests_total", "Requests answered",
               concat(route, ",status=\"", exchange.status(), "\""))
      .add();
  parts_.metrics
      .histogram("atoll_service_request_seconds", "Time from request to the end of its answer",
                 route)
      .observe_seconds(std::chrono::duration<double>(took).count());
  if (!result && (exchange.status() >= 500 || exchange.status() == 0 || exchange.status() == 200)) {
    // Failed on our side, or after the answer had begun: the reason is nowhere else.
    LOG_WARN("request failed", {"request_id", exchange.request_id()}, {"route", pattern},
             {"error", result.error()});
  }
  constexpr std::size_t kMaxLoggedBytes = 64;  // of the client's text
  LOG_INFO("request", {"dialect", "e2b"}, {"method", method}, {"route", pattern},
           {"path", std::string_view{exchange.request().path}.substr(0, kMaxLoggedBytes)},
           {"status", exchange.status()}, {"bytes", exchange.bytes_sent()},
           {"us", std::chrono::duration_cast<std::chrono::microseconds>(took).count()},
           {"request_id", exchange.request_id()}, {"key", exchange.principal().key_id},
           {"sandbox", std::string_view{exchange.sandbox_id()}.substr(0, kMaxLoggedBytes)});
}

}  // namespace atl::service::e2b
