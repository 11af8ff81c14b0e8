#include "service/e2b/sandboxes/state_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"
#include "service/e2b/lenient_fields.h"
#include "service/e2b/sandboxes/list_request.h"
#include "service/e2b/sandboxes/new_sandbox.h"
#include "service/e2b/sandboxes/snapshot_names.h"

namespace atl::service::e2b {
namespace {

using control::Permission;
using control::Snapshot;

Json snapshot_json(const Snapshot& snapshot) {
  Json names = Json::array();
  if (std::string id = snapshot_id(snapshot); id != snapshot.id) {
    names.push(std::move(id));
  }
  return Json::object({{"snapshotID", snapshot_id(snapshot)}, {"names", std::move(names)}});
}

Result<> refuse_paused(const control::Sandbox& sandbox) {
  if (is_running(sandbox)) {
    return {};
  }
  return fail(Code::kFailedPrecondition, concat("sandbox \"", sandbox.id, "\" is paused"));
}

// Newest first. REQUIRES: oldest first.
bool is_after(const Snapshot& snapshot, const PageToken& token) {
  return snapshot.created_at == token.at ? snapshot.id < token.id : snapshot.created_at < token.at;
}

}  // namespace

void StateRoutes::add_to(E2bRoutes& routes) {
  routes.add("POST", "/sandboxes/{id}/fork", Permission::kSandboxCreate,
             [this](E2bExchange& e, const auto& p) { return fork(e, parameter(p, "id")); });
  routes.add("POST", "/sandboxes/{id}/snapshots", Permission::kSandboxWrite,
             [this](E2bExchange& e, const auto& p) { return take(e, parameter(p, "id")); });
  routes.add("GET", "/snapshots", Permission::kSandboxRead,
             [this](E2bExchange& e, const auto&) { return list(e); });
  routes.add("DELETE", "/templates/{id}", Permission::kSandboxRead,
             [this](E2bExchange& e, const auto& p) { return remove(e, p); });
}

Task<> StateRoutes::fork(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"count", "timeout"}));
  CO_TRY(const auto count, fields->integer("count", 1, control::kMaxClaimCount));
  CO_TRY(const auto timeout, fields->integer("timeout", INT64_MIN, INT64_MAX));
  CO_TRY_DO(check_timeout(timeout.value_or(kShortTimeoutSeconds)));
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  CO_TRY_DO(refuse_paused(sandbox));
  const bool memory = parts_.sandboxes.dumps_memory();
  control::ForkRequest request{.count = static_cast<std::size_t>(count.value_or(1)),
                               .partial = true,
                               .start = true,
                               .memory = memory,
                               .ttl_seconds = timeout.value_or(kShortTimeoutSeconds)};
  // Without a way to keep processes at least the interpreters go along.
  auto forking = memory ? parts_.snapshots.fork(sandbox.team_id, sandbox.id, std::move(request))
                        : warm_forks_.fork(sandbox.team_id, sandbox.id, std::move(request));
  CO_TRY(const auto answer, co_await std::move(forking));
  Json results = Json::array();
  for (const auto& child : answer.sandboxes) {
    results.push(Json::object({{"sandbox", sandbox_json(parts_, child)}}));
  }
  for (const Error& error : answer.failures) {
    results.push(Json::object(
        {{"error", Json::object({{"code", status_of(error)}, {"message", error.message}})}}));
  }
  co_return co_await exchange.respond_json(201, results);
}

Task<> StateRoutes::take(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"name", "memory"}));
  CO_TRY(const auto asked, fields->string("name"));
  CO_TRY(const auto memory, fields->boolean("memory"));
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  control::SnapshotRequest request{.memory =
                                       memory.value_or(true) && parts_.sandboxes.dumps_memory()};
  if (asked && !asked->empty()) {
    CO_TRY(request.name, parse_snapshot_name(sandbox.team_id, *asked));
    const std::string alias = request.name.substr(0, request.name.find(':'));
    if (parts_.templates.taken(sandbox.team_id, alias)) {
      co_return fail(Code::kAlreadyExists,
                     concat("there is a template \"", alias, "\"; a snapshot needs another name"));
    }
  }
  CO_TRY(const auto created,
         co_await parts_.snapshots.create(sandbox.team_id, sandbox.id, std::move(request)));
  co_return co_await exchange.respond_json(201, snapshot_json(created.snapshot));
}

Task<> StateRoutes::list(E2bExchange& exchange) {
  const std::string& query = exchange.request().query;
  const std::string& team_id = exchange.principal().team_id;
  std::size_t limit = kMaxPage;
  std::optional<PageToken> after;
  CO_TRY_DO(parse_page(query, limit, after));
  const std::string sandbox_id = http::query_value(query, "sandboxID").value_or("");
  std::string name = http::query_value(query, "name").value_or("");
  if (!name.empty()) {
    CO_TRY(name, parse_snapshot_name(team_id, name));
  }
  auto all = parts_.snapshots.list_all(team_id);
  std::ranges::reverse(all);
  http::Headers headers;
  Json page = Json::array();
  const Snapshot* last = nullptr;
  for (const Snapshot& snapshot : all) {
    if ((!sandbox_id.empty() && snapshot.sandbox_id != sandbox_id) ||
        (!name.empty() && snapshot.name != name) || (after && !is_after(snapshot, *after))) {
      continue;
    }
    if (page.as_array()->size() == limit) {
      headers.add("X-Next-Token", format_page_token({last->created_at, last->id, false}));
      break;
    }
    last = &snapshot;
    page.push(snapshot_json(snapshot));
  }
  co_return co_await exchange.respond_json(200, page, std::move(headers));
}

Task<> StateRoutes::remove(E2bExchange& exchange, const http::PathParameters& parameters) {
  const std::string id = parameter(parameters, "id");
  const std::string& team_id = exchange.principal().team_id;
  const auto snapshot = find_snapshot(parts_.snapshots, team_id, id);
  // Also one that has no build yet, which is no name for a sandbox.
  if (template_delete_ &&
      (!snapshot || (!is_exactly(*snapshot, id) && parts_.templates.taken(team_id, id)))) {
    return template_delete_(exchange, parameters);
  }
  if (snapshot) {
    return remove_snapshot(exchange, snapshot->id);
  }
  return exchange.respond(
      error_response(404, concat("there is no template \"", to_valid_utf8(id), "\"")));
}

Task<> StateRoutes::remove_snapshot(E2bExchange& exchange, std::string id) {
  if (!exchange.principal().may(Permission::kSandboxWrite)) {
    co_return fail(Code::kPermissionDenied, "the roles of this API key do not allow sandbox:write");
  }
  CO_TRY_DO(co_await parts_.snapshots.remove(exchange.principal().team_id, std::move(id)));
  co_return co_await exchange.respond_empty(204);
}

}  // namespace atl::service::e2b
