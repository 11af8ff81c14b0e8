#include "service/native/native_api.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "service/native/contract_routes.h"
#include "service/native/envelope.h"

namespace atl::service::native {
namespace {

constexpr std::string_view kPrefix = "/api/v1";
constexpr std::string_view kUnmatched = "unmatched";

bool needs_key(std::string_view path) {
  return path == kPrefix || path.starts_with(concat(kPrefix, "/")) || path.starts_with("/users/");
}

bool is_admin(const control::Principal& principal) {
  return std::find(principal.roles.begin(), principal.roles.end(), "admin") !=
         principal.roles.end();
}

// "Authorization: Bearer <key>", or "X-API-Key: <key>".
Result<std::string_view> key_of(const http::Headers& headers) {
  const auto authorization = headers.get("Authorization");
  if (authorization.empty()) {
    const auto key = trim(headers.get("X-API-Key"));
    if (key.empty()) {
      return fail(Code::kUnauthenticated,
                  "an API key is needed; send it as \"Authorization: Bearer <key>\"");
    }
    return key;
  }
  constexpr std::string_view kScheme = "bearer ";
  if (!equals_ignore_case(authorization.substr(0, kScheme.size()), kScheme)) {
    return fail(Code::kUnauthenticated, "the Authorization header must be \"Bearer <key>\"");
  }
  return trim(authorization.substr(kScheme.size()));
}

}  // namespace

NativeApi::NativeApi(control::Sandboxes& sandboxes, control::Snapshots& snapshots,
                     control::Contexts& contexts, control::Identity& identity,
                     const WallClock& clock, Metrics& metrics, control::TemplateJobs* templates,
                     control::TreeArchives* archives, control::Volumes* volumes,
                     control::Diffs* diffs, AuditParts audit, const Published* published,
                     control::SshKeys* ssh_keys, NetworkParts network)
    : identity_(identity),
      metrics_(metrics),
      idempotency_(clock),
      meta_(sandboxes, clock, metrics),
      sandboxes_(sandboxes, snapshots, clock, audit.flows, published, network.policies),
      state_(sandboxes, snapshots, contexts, published),
      contexts_(contexts, idempotency_),
      sandbox_files_(contexts, sandboxes),
      files_({.prefix = "/api/v1/sandboxes/{id}/files",
              .read = control::Permission::kSandboxRead,
              .write = control::Permission::kSandboxWrite},
             sandbox_files_, archives),
      templates_(sandboxes, templates, idempotency_, contexts),
      volumes_(volumes),
      diffs_(diffs),
      flows_(sandboxes, audit),
      approvals_(audit.approvals),
      services_(published),
      ssh_keys_(ssh_keys),

      network_(network.policies),
      credentials_(network.credentials) {
  RouteTable table{router_, sandboxes};
  meta_.add_to(table);
  sandboxes_.add_to(table);
  state_.add_to(table);
  contexts_.add_to(table);
  files_.add_to(table);
  templates_.add_to(table);
  volumes_.add_to(table);
  if (volumes != nullptr) {
    volume_files_.emplace(FileRoutes::Where{.prefix = "/api/v1/sandboxvolumes/{id}/files",
                                            .read = control::Permission::kVolumeFileRead,
                                            .write = control::Permission::kVolumeFileWrite},
                          *volumes, archives);
    volume_files_->add_to(table);
  }
  diffs_.add_to(table);
  flows_.add_to(table);
  approvals_.add_to(table);
  services_.add_to(table);
  ssh_keys_.add_to(table);
  network_.add_to(table);
  credentials_.add_to(table);
  add_contract_routes(table);
  routes_ = table.entries();
}

Task<> NativeApi::handle(http::Exchange& exchange) {
  TaskContext& context = co_await current_context();
  Loop& loop = *context.loop;
  const Instant begin = loop.now();
  NativeExchange native{exchange, choose_request_id(exchange.request()), context};
  std::string_view pattern = kUnmatched;
  auto result = co_await dispatch(native, pattern);
  const auto outcome = result;
  if (!result && !native.started()) {
    result = co_await native.respond(
        error_response(result.error(), is_admin(native.principal()), native.request_id()));
  }
  record(native, pattern, loop.now() - begin, outcome);
  co_return std::move(result);
}

Task<> NativeApi::dispatch(NativeExchange& exchange, std::string_view& pattern) {
  const auto& request = exchange.request();
  if (needs_key(request.path)) {
    CO_TRY_DO(authenticate(exchange));
  }
  const auto match = router_.match(request.method, request.path);
  if (match.handler != nullptr) {
    pattern = match.pattern;
    co_return co_await (*match.handler)(exchange, match.parameters);
  }
  if (match.allowed_methods.empty()) {
    co_return fail(Code::kNotFound, concat("there is no ", request.method, " ",
                                           to_valid_utf8(request.path), " in this API"));
  }
  const Error error{Code::kUnimplemented,
                    concat(request.method, " is not possible here; use ", match.allowed_methods),
                    "method_not_allowed"};
  http::Response response = error_response(error, true, exchange.request_id());
  response.headers.set("Allow", match.allowed_methods);
  co_return co_await exchange.respond(std::move(response));
}

Result<> NativeApi::authenticate(NativeExchange& exchange) {
  TRY(const auto key, key_of(exchange.request().headers));
  TRY(auto principal, identity_.authenticate(key));
  exchange.authenticate_as(std::move(principal));
  return {};
}

void NativeApi::count(const NativeExchange& exchange, std::string_view pattern, Duration took) {
  // Methods are the client's text: only known ones may become labels.
  const bool known = pattern != kUnmatched;
  const auto route = [&] {
    return concat("route=\"", known ? exchange.request().method : "", known ? " " : "", pattern,
                  "\"");
  };
  RouteMetrics& of_route = route_metrics_[pattern.data()];
  if (of_route.seconds == nullptr) {
    of_route.seconds = &metrics_.histogram("atoll_service_request_seconds",
                                           "Time from request to the end of its answer", route());
  }
  of_route.seconds->observe_seconds(std::chrono::duration<double>(took).count());
  Counter*& answers = of_route.answers[exchange.status()];
  if (answers == nullptr) {
    answers = &metrics_.counter("atoll_service_requests_total", "Requests answered",
                                concat(route(), ",status=\"", exchange.status(), "\""));
  }
  answers->add();
}

void NativeApi::record(const NativeExchange& exchange, std::string_view pattern, Duration took,
                       const Result<>& result) {
  const auto& method = exchange.request().method;
  count(exchange, pattern, took);
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  if (!result && (exchange.status() >= 500 || exchange.status() == 0 || exchange.status() == 200)) {
    // Failed on our side, or after the answer had begun: the reason is nowhere else.
    LOG_WARN("request failed", {"request_id", exchange.request_id()}, {"route", pattern},
             {"error", result.error()});
  }
  constexpr std::size_t kMaxLoggedIdBytes = 64;  // it is the client's text
  const auto sandbox = std::string_view{exchange.sandbox_id()}.substr(0, kMaxLoggedIdBytes);
  LOG_INFO("request", {"method", method}, {"route", pattern}, {"status", exchange.status()},
           {"bytes", exchange.bytes_sent()}, {"us", microseconds},
           {"request_id", exchange.request_id()}, {"key", exchange.principal().key_id},
           {"sandbox", sandbox});
}

}  // namespace atl::service::native
