// Sandboxes: claim, list, get, status, update, refresh, metrics, delete.
#include "base/random.h"
#include "base/strings.h"
#include "base/trace.h"
#include "control/limits.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/flow_routes.h"
#include "service/native/metric_series.h"
#include "service/native/routes.h"
#include "service/native/sandbox_json.h"
#include "service/native/service_routes.h"

namespace atl::service::native {
namespace {

using control::Permission;

int claim_status(const control::ClaimAnswer& answer) {
  return answer.created ? 201 : 200;
}

// The name in the request's Host field, without its port.
std::string asked_host(const NativeExchange& exchange) {
  const std::string_view host = exchange.request().headers.get("Host");
  const auto bracket = host.find(']');
  const auto colon = host.find(':', bracket == host.npos ? 0 : bracket);
  return to_valid_utf8(host.substr(0, colon));
}

}  // namespace

void SandboxRoutes::add_to(RouteTable& table) {
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  constexpr std::string_view kAll = "/api/v1/sandboxes";
  constexpr std::string_view kOne = "/api/v1/sandboxes/{id}";
  table.add("POST", kAll, Permission::kSandboxCreate,
            [this](NativeExchange& exchange, const auto&) { return claim(exchange); });
  table.add("GET", kAll, Permission::kSandboxRead,
            [this](NativeExchange& exchange, const auto&) { return list(exchange); });
  table.add("GET", kOne, Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return get(e, id_of(p)); });
  for (const auto method : {"PUT", "PATCH"}) {
    table.add(method, kOne, Permission::kSandboxWrite,
              [this, id_of](NativeExchange& e, const auto& p) { return update(e, id_of(p)); });
  }
  table.add("DELETE", kOne, Permission::kSandboxDelete,
            [this, id_of](NativeExchange& e, const auto& p) { return remove(e, id_of(p)); });
  table.add("GET", concat(kOne, "/status"), Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return status(e, id_of(p)); });
  table.add("POST", concat(kOne, "/refresh"), Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return refresh(e, id_of(p)); });
  table.add("GET", concat(kOne, "/metrics"), Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return metrics(e, id_of(p)); });
  table.add("GET", concat(kOne, "/metrics/catalog"), Permission::kSandboxRead,
            [](NativeExchange& e, const auto&) {
              return e.respond(data_response(200, metrics_catalog_json()));
            });
}

Task<> SandboxRoutes::claim(NativeExchange& exchange) {
  CO_TRY(auto key, idempotency_key(exchange.request()));
  CO_TRY(auto text, co_await http::read_all(exchange.body(), kMaxJsonBodyBytes));
  const std::string digest = sha256(text);
  exchange.replace_body(std::move(text));
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(auto parsed, parse_claim(body));
  co_await mark(Step::kDecode);
  const bool many = parsed.many;
  parsed.request.team_id = exchange.principal().team_id;
  if (key) {
    parsed.request.once =
        control::ClaimOnce{.key = *std::move(key),
                           .body_sha256 = digest,
                           .remember = [many](const control::ClaimAnswer& answer) {
                             return remember_answer(claim_status(answer), claim_json(answer, many));
                           }};
  }
  auto claim = parsed.snapshot_id.empty()
                   ? sandboxes_.claim_all(std::move(parsed.request))
                   : snapshots_.claim(std::move(parsed.snapshot_id), std::move(parsed.request));
  CO_TRY(const auto answer, co_await std::move(claim));
  if (answer.remembered) {
    CO_TRY(auto again, repeat_answer(*answer.remembered));
    co_return co_await exchange.respond(std::move(again));
  }
  exchange.concerns(answer.sandboxes.front().id);
  co_return co_await exchange.respond(
      data_response(claim_status(answer), claim_json(answer, many)));
}

Json SandboxRoutes::view(const NativeExchange& exchange, const control::Sandbox& sandbox,
                         bool listed) const {
  using Detail = Published::Detail;
  Json services = Json::array();
  if (published_ != nullptr) {
    services = published_->services_json(sandbox.id, listed ? Detail::kBrief : Detail::kWhole);
  }
  Json json = sandbox_json(sandbox, sandboxes_.idle_expires_at(sandbox.id), std::move(services));
  if (ssh_) {
    const bool everywhere = ssh_->host == "0.0.0.0" || ssh_->host == "::";
    json.set("ssh", Json::object({{"host", everywhere ? asked_host(exchange) : ssh_->host},
                                  {"port", ssh_->port},
                                  {"username", sandbox.id}}));
  }
  return json;
}

Task<> SandboxRoutes::list(NativeExchange& exchange) {
  CO_TRY(const auto request, parse_list(exchange.request().query, exchange.principal().team_id,
                                        sandboxes_.templates()));
  const auto answer = sandboxes_.list(request);
  Json sandboxes = Json::array();
  for (const auto& sandbox : answer.sandboxes) {
    sandboxes.push(view(exchange, sandbox, true));
  }
  Json next{nullptr};
  if (answer.has_more) {
    const auto& last = answer.sandboxes.back();
    next = control::format_cursor({last.created_at, last.id});
  }
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"sandboxes", std::move(sandboxes)},
                                       {"count", answer.sandboxes.size()},
                                       {"has_more", answer.has_more},
                                       {"next_cursor", std::move(next)}})));
}

Task<> SandboxRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto sandbox, sandboxes_.get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(200, view(exchange, sandbox)));
}

Task<> SandboxRoutes::status(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto sandbox, sandboxes_.get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(200, sandbox_status_json(sandbox)));
}

Task<> SandboxRoutes::update(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(auto change, parse_update(body));
  CO_TRY(auto services, parse_service_update(body));
  const std::string team_id = exchange.principal().team_id;
  const auto network = change.network;
  if (network != nullptr) {
    if (policies_ == nullptr) {
      co_return fail(Code::kUnimplemented, "this server has no network policies");
    }
    CO_TRY_DO(policies_->check(team_id, id, *network, "config.network"));
  }
  CO_TRY(const auto sandbox, co_await sandboxes_.update(team_id, id, std::move(change)));
  if (network != nullptr) {
    CO_TRY_DO(co_await policies_->replace(team_id, id, network, "config.network"));
  }
  if (services && published_ != nullptr) {
    CO_TRY_DO(co_await published_->services.put(team_id, id, *std::move(services)));
  }
  co_return co_await exchange.respond(data_response(200, view(exchange, sandbox)));
}

Task<> SandboxRoutes::refresh(NativeExchange& exchange, std::string id) {
  CO_TRY(auto text, co_await http::read_all(exchange.body(), kMaxJsonBodyBytes));
  exchange.replace_body(trim(text).empty() ? "{}" : std::move(text));
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"duration"}));
  CO_TRY(const auto duration, fields.integer("duration", 0, control::kMaxTtlSeconds));
  CO_TRY(const auto sandbox,
         co_await sandboxes_.refresh(exchange.principal().team_id, id, duration.value_or(0)));
  co_return co_await exchange.respond(data_response(
      200, Json::object({{"sandbox_id", sandbox.id},
                         {"expires_at", rfc3339_or_null(sandbox.expires_at)},
                         {"hard_expires_at", rfc3339_or_null(sandbox.hard_expires_at)},
                         {"idle_expires_at", rfc3339_or_null(sandboxes_.idle_expires_at(id))}})));
}

Task<> SandboxRoutes::metrics(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto samples, co_await sandboxes_.usage(exchange.principal().team_id, id));
  // Now is after the newest sample, which must not fall out of the range.
  CO_TRY(const auto request, parse_metrics(exchange.request().query, clock_.now()));
  Json json = metrics_json(request, samples);
  if (flows_ != nullptr) {
    CO_TRY(const auto traffic, co_await flows_->traffic(exchange.principal().team_id, id));
    json.set("network", traffic_json(traffic));
  }
  co_return co_await exchange.respond(data_response(200, std::move(json)));
}

Task<> SandboxRoutes::remove(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(co_await sandboxes_.remove(exchange.principal().team_id, id));
  // 202 is what the contract's clients wait for; nothing is left to be done all the same.
  co_return co_await exchange.respond(
      data_response(202, Json::object({{"message", concat("sandbox ", id, " deleted")}})));
}

}  // namespace atl::service::native
