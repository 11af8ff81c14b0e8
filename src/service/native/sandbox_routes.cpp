// Sandboxes: claim, list, get, status, delete.
#include "base/strings.h"
#include "control/limits.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/routes.h"

namespace atl::service::native {
namespace {

using control::Permission;
using control::Sandbox;
using control::SandboxStatus;

Json resources_json(const Sandbox& sandbox) {
  return Json::object({{"memory", format_quantity(sandbox.limits.memory_bytes)},
                       {"cpu", control::format_cpu_millis(sandbox.limits.cpu_millis)},
                       {"disk", format_quantity(sandbox.limits.disk_bytes)}});
}

Json string_map_json(const control::StringMap& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) {
    object.set(key, value);
  }
  return object;
}

// The contract's word for what runs now: another one after every start.
std::string runtime_id(const Sandbox& sandbox) {
  return sandbox.status == SandboxStatus::kPaused ? std::string{}
                                                  : concat(sandbox.id, "-", sandbox.generation);
}

Json sandbox_json(const Sandbox& sandbox) {
  Json json = Json::object({{"id", sandbox.id},
                            {"template_id", sandbox.template_name},
                            {"team_id", sandbox.team_id},
                            {"user_id", ""},
                            {"cluster_id", "default"},
                            {"status", control::status_name(sandbox.status)},
                            {"paused", sandbox.status == SandboxStatus::kPaused},
                            {"auto_resume", sandbox.auto_resume},
                            {"services", Json::array()},
                            {"resources", resources_json(sandbox)},
                            {"pod_name", sandbox.id},
                            {"runtime_id", runtime_id(sandbox)},
                            {"runtime_generation", sandbox.generation},
                            {"metadata", string_map_json(sandbox.labels)},
                            {"expires_at", rfc3339_or_null(sandbox.expires_at)},
                            {"hard_expires_at", rfc3339_or_null(sandbox.hard_expires_at)},
                            {"claimed_at", rfc3339(sandbox.claimed_at)},
                            {"created_at", rfc3339(sandbox.created_at)},
                            {"updated_at", rfc3339(sandbox.updated_at)}});
  if (!sandbox.failure.empty()) {
    json.set("failure", sandbox.failure);
  }
  return json;
}

Result<control::ClaimRequest> parse_claim(const Json& body) {
  control::ClaimRequest request;
  TRY(const auto fields, Fields::of(body, "", {"template", "config", "snapshot_id", "mounts"}));
  TRY_DO(fields.refuse_missing_features({"snapshot_id", "mounts"}));
  TRY(request.template_name, fields.required_string("template"));
  TRY(const auto config,
      fields.object("config", {"env_vars", "resources", "ttl", "hard_ttl", "auto_resume",
                               "metadata", "network", "webhook", "services"}));
  TRY_DO(config.refuse_missing_features({"network", "webhook", "services"}));
  TRY(request.env, config.string_map("env_vars"));
  TRY(request.labels, config.string_map("metadata"));
  TRY(const auto ttl, config.integer("ttl", 0, control::kMaxTtlSeconds));
  TRY(const auto hard_ttl, config.integer("hard_ttl", 0, control::kMaxTtlSeconds));
  TRY(const auto auto_resume, config.boolean("auto_resume"));
  request.ttl_seconds = ttl.value_or(0);
  request.hard_ttl_seconds = hard_ttl.value_or(0);
  request.auto_resume = auto_resume.value_or(true);
  TRY(const auto resources, config.object("resources", {"memory", "cpu", "disk"}));
  TRY(request.resources.memory, resources.string("memory"));
  TRY(request.resources.cpu, resources.string("cpu"));
  TRY(request.resources.disk, resources.string("disk"));
  return request;
}

Result<control::ListRequest> parse_list(std::string_view query,
                                        const control::Templates& templates) {
  constexpr std::int64_t kMaxLimit = 200;
  control::ListRequest request;
  if (const auto status = http::query_value(query, "status")) {
    request.status = control::parse_status(*status);
    if (!request.status) {
      return fail(Code::kInvalidArgument,
                  "query parameter \"status\" must be one of starting, running, paused, "
                  "terminating, failed");
    }
  }
  if (http::query_value(query, "paused")) {
    TRY(const bool paused, query_boolean(query, "paused"));
    if (paused) {
      request.status = SandboxStatus::kPaused;
    }
  }
  if (auto name = http::query_value(query, "template_id")) {
    const auto found = templates.find(*name);
    request.template_name = found ? found->name : *name;
  }
  TRY(const auto limit, query_integer(query, "limit", 1, kMaxLimit));
  TRY(const auto offset, query_integer(query, "offset", 0, INT32_MAX));
  request.limit = static_cast<std::size_t>(limit.value_or(50));
  request.offset = static_cast<std::size_t>(offset.value_or(0));
  return request;
}

}  // namespace

void SandboxRoutes::add_to(RouteTable& table) {
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  table.add("POST", "/api/v1/sandboxes", Permission::kSandboxCreate,
            idempotency_.guard(
                [this](NativeExchange& exchange, const auto&) { return claim(exchange); }));
  table.add("GET", "/api/v1/sandboxes", Permission::kSandboxRead,
            [this](NativeExchange& exchange, const auto&) { return list(exchange); });
  table.add("GET", "/api/v1/sandboxes/{id}", Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return get(e, id_of(p)); });
  table.add("GET", "/api/v1/sandboxes/{id}/status", Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return status(e, id_of(p)); });
  table.add("DELETE", "/api/v1/sandboxes/{id}", Permission::kSandboxDelete,
            [this, id_of](NativeExchange& e, const auto& p) { return remove(e, id_of(p)); });
}

Task<> SandboxRoutes::claim(NativeExchange& exchange) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(auto request, parse_claim(body));
  request.team_id = exchange.principal().team_id;
  CO_TRY(const auto sandbox, co_await sandboxes_.claim(std::move(request)));
  co_return co_await exchange.respond(
      data_response(201, Json::object({{"sandbox_id", sandbox.id},
                                       {"status", control::status_name(sandbox.status)},
                                       {"pod_name", sandbox.id},
                                       {"runtime_id", runtime_id(sandbox)},
                                       {"template", sandbox.template_name},
                                       {"cluster_id", "default"},
                                       {"bootstrap_mounts", Json::array()}})));
}

Task<> SandboxRoutes::list(NativeExchange& exchange) {
  CO_TRY(auto request, parse_list(exchange.request().query, sandboxes_.templates()));
  request.team_id = exchange.principal().team_id;
  const auto answer = sandboxes_.list(request);
  Json sandboxes = Json::array();
  for (const auto& sandbox : answer.sandboxes) {
    sandboxes.push(sandbox_json(sandbox));
  }
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"sandboxes", std::move(sandboxes)},
                                       {"count", answer.sandboxes.size()},
                                       {"has_more", answer.has_more}})));
}

Task<> SandboxRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto sandbox, sandboxes_.get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(200, sandbox_json(sandbox)));
}

Task<> SandboxRoutes::status(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto sandbox, sandboxes_.get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(
      200, Json::object({{"sandbox_id", sandbox.id},
                         {"template_id", sandbox.template_name},
                         {"team_id", sandbox.team_id},
                         {"user_id", ""},
                         {"pod_name", sandbox.id},
                         {"runtime_id", runtime_id(sandbox)},
                         {"status", control::status_name(sandbox.status)},
                         {"claimed_at", rfc3339(sandbox.claimed_at)},
                         {"expires_at", rfc3339_or_null(sandbox.expires_at)},
                         {"hard_expires_at", rfc3339_or_null(sandbox.hard_expires_at)},
                         {"created_at", rfc3339(sandbox.created_at)}})));
}

Task<> SandboxRoutes::remove(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(co_await sandboxes_.remove(exchange.principal().team_id, id));
  // 202 is what the contract's clients wait for; nothing is left to be done all the same.
  co_return co_await exchange.respond(
      data_response(202, Json::object({{"message", concat("sandbox ", id, " deleted")}})));
}

}  // namespace atl::service::native
