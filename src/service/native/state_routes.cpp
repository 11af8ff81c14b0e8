// Pausing, snapshots and forks.
#include "base/strings.h"
#include "control/limits.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/routes.h"
#include "service/native/sandbox_json.h"
#include "service/native/service_routes.h"

namespace atl::service::native {
namespace {

using control::PauseMemory;
using control::Permission;
using Restored = control::ResumeAnswer::Restored;

std::string_view restored_name(Restored restored) {
  switch (restored) {
    case Restored::kMemory:
      return "memory";
    case Restored::kFilesystem:
      return "filesystem";
    case Restored::kNothing:
      break;
  }
  return "nothing";
}

std::string_view memory_name(PauseMemory memory) {
  switch (memory) {
    case PauseMemory::kKeep:
      return "frozen";
    case PauseMemory::kDump:
      return "disk";
    case PauseMemory::kDrop:
      break;
  }
  return "none";
}

// true, false or "disk".
Result<PauseMemory> pause_memory(const Json& body, const Fields& fields) {
  const Json* member = body.find("memory");
  if (member != nullptr && member->as_string() != nullptr) {
    if (*member->as_string() != "disk") {
      return fail(Code::kInvalidArgument, "field \"memory\" must be true, false or \"disk\"");
    }
    return PauseMemory::kDump;
  }
  TRY(const auto memory, fields.boolean("memory"));
  return memory.value_or(true) ? PauseMemory::kKeep : PauseMemory::kDrop;
}

}  // namespace

Json snapshot_json(const control::Snapshot& snapshot) {
  Json json = Json::object({{"id", snapshot.id},
                            {"sandbox_id", snapshot.sandbox_id},
                            {"name", snapshot.name},
                            {"description", snapshot.description},
                            {"template_id", snapshot.template_name},
                            {"created_at", rfc3339(snapshot.created_at)}});
  if (snapshot.expires_at) {
    json.set("expires_at", rfc3339(*snapshot.expires_at));
  }
  return json;
}

namespace {

Json or_null(const std::string& text) {
  return text.empty() ? Json{nullptr} : Json{text};
}

Json tree_json(const std::vector<control::FamilyMember>& members) {
  Json nodes = Json::array();
  for (const auto& member : members) {
    const control::Relative& relative = member.relative;
    Json restores = Json::array();
    for (const auto& restore : relative.restores) {
      restores.push(Json::object(
          {{"snapshot_id", restore.snapshot_id}, {"restored_at", rfc3339(restore.at)}}));
    }
    const bool sandbox = relative.kind == control::Relative::Kind::kSandbox;
    nodes.push(Json::object(
        {{"id", relative.id},
         {"kind", sandbox ? "sandbox" : "snapshot"},
         {"parent_id", or_null(relative.parent_id)},
         {"depth", member.depth},
         {"cause", relative.cause},
         {"name", or_null(relative.name)},
         {"template_id", relative.template_name},
         {"status", member.status ? Json{control::status_name(*member.status)} : Json{nullptr}},
         {"created_at", rfc3339(relative.created_at)},
         {"deleted_at", rfc3339_or_null(relative.deleted_at)},
         {"restores", std::move(restores)}}));
  }
  return Json::object({{"nodes", std::move(nodes)}, {"count", members.size()}});
}

// The body and the key of a request that is to happen once.
struct OnceRequest {
  Json body;
  std::optional<std::string> key;
  std::string digest;
};

Task<OnceRequest> read_once(NativeExchange& exchange) {
  OnceRequest once;
  CO_TRY(once.key, idempotency_key(exchange.request()));
  CO_TRY(auto text, co_await http::read_all(exchange.body(), kMaxJsonBodyBytes));
  once.digest = request_digest(exchange.request(), text);
  exchange.replace_body(std::move(text));
  CO_TRY(once.body, co_await read_optional_json(exchange.body()));
  co_return std::move(once);
}

Json interpreters_json(const std::vector<control::CarriedInterpreter>& interpreters) {
  Json list = Json::array();
  for (const auto& interpreter : interpreters) {
    Json json = Json::object({{"context_id", interpreter.context_id},
                              {"alias", interpreter.alias},
                              {"carried", interpreter.carried}});
    if (!interpreter.reason.empty()) {
      json.set("reason", interpreter.reason);
    }
    if (!interpreter.note.empty()) {
      json.set("note", interpreter.note);
    }
    if (interpreter.memory_bytes > 0) {
      json.set("memory_bytes", interpreter.memory_bytes);
    }
    if (!interpreter.missing_in.empty()) {
      Json missing = Json::array();
      for (const std::string& id : interpreter.missing_in) {
        missing.push(id);
      }
      json.set("missing_in", std::move(missing));
    }
    list.push(std::move(json));
  }
  return list;
}

}  // namespace

void StateRoutes::add_to(RouteTable& table) {
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  constexpr std::string_view kOne = "/api/v1/sandboxes/{id}";
  constexpr std::string_view kSnapshot = "/api/v1/sandbox-rootfs-snapshots/{id}";
  table.add("POST", concat(kOne, "/pause"), Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return pause(e, id_of(p)); });
  table.add("POST", concat(kOne, "/resume"), Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return resume(e, id_of(p)); });
  table.add("POST", concat(kOne, "/snapshots"), Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return take(e, id_of(p)); });
  table.add("GET", concat(kOne, "/snapshots"), Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return list(e, id_of(p)); });
  table.add("POST", concat(kOne, "/rootfs/restore"), Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return restore(e, id_of(p)); });
  table.add("POST", concat(kOne, "/fork"), Permission::kSandboxCreate,
            [this, id_of](NativeExchange& e, const auto& p) { return fork(e, id_of(p)); });
  table.add("GET", concat(kOne, "/tree"), Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return tree(e, id_of(p)); });
  table.add("GET", "/api/v1/sandbox-trees", Permission::kSandboxRead,
            [this](NativeExchange& e, const auto&) { return trees(e); });
  table.add("GET", kSnapshot, Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return get(e, id_of(p)); });
  table.add("DELETE", kSnapshot, Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return remove(e, id_of(p)); });
}

Task<> StateRoutes::pause(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_optional_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"memory"}));
  CO_TRY(const auto memory, pause_memory(body, fields));
  CO_TRY(const auto answer,
         co_await sandboxes_.pause(exchange.principal().team_id, std::move(id), memory));
  Json json = Json::object({{"sandbox_id", answer.sandbox.id},
                            {"paused", true},
                            {"status", control::status_name(answer.sandbox.status)},
                            {"memory", memory_name(answer.memory)}});
  if (!answer.reason.empty()) {
    json.set("reason", answer.reason);
  }
  co_return co_await exchange.respond(data_response(200, std::move(json)));
}

Task<> StateRoutes::resume(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto answer,
         co_await sandboxes_.resume(exchange.principal().team_id, std::move(id)));
  Json json = Json::object({{"sandbox_id", answer.sandbox.id},
                            {"resumed", true},
                            {"status", control::status_name(answer.sandbox.status)},
                            {"runtime_generation", answer.sandbox.generation},
                            {"restored", restored_name(answer.restored)}});
  if (!answer.reason.empty()) {
    json.set("reason", answer.reason);
  }
  co_return co_await exchange.respond(data_response(200, std::move(json)));
}

Task<> StateRoutes::take(NativeExchange& exchange, std::string id) {
  CO_TRY(auto once, co_await read_once(exchange));
  CO_TRY(const auto fields, Fields::of(once.body, "", {"name", "description", "expires_at"}));
  control::SnapshotRequest request;
  CO_TRY(const auto name, fields.string("name"));
  CO_TRY(const auto description, fields.string("description"));
  CO_TRY(request.expires_at, fields.time("expires_at"));
  request.name = name.value_or("");
  request.description = description.value_or("");
  if (once.key) {
    request.once = control::SnapshotOnce{.key = *std::move(once.key),
                                         .body_sha256 = std::move(once.digest),
                                         .remember = [](const control::Snapshot& snapshot) {
                                           return remember_answer(201, snapshot_json(snapshot));
                                         }};
  }
  CO_TRY(const auto created, co_await snapshots_.create(exchange.principal().team_id, std::move(id),
                                                        std::move(request)));
  if (created.remembered) {
    CO_TRY(auto again, repeat_answer(*created.remembered));
    co_return co_await exchange.respond(std::move(again));
  }
  co_return co_await exchange.respond(data_response(201, snapshot_json(created.snapshot)));
}

Task<> StateRoutes::list(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto snapshots, snapshots_.list(exchange.principal().team_id, id));
  Json list = Json::array();
  for (const auto& snapshot : snapshots) {
    list.push(snapshot_json(snapshot));
  }
  co_return co_await exchange.respond(data_response(
      200, Json::object({{"snapshots", std::move(list)}, {"count", snapshots.size()}})));
}

Task<> StateRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto snapshot, snapshots_.get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(200, snapshot_json(snapshot)));
}

Task<> StateRoutes::remove(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(co_await snapshots_.remove(exchange.principal().team_id, std::move(id)));
  co_return co_await exchange.respond(data_response(200, Json::object({{"deleted", true}})));
}

Task<> StateRoutes::restore(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"snapshot_id", "force"}));
  CO_TRY(std::string snapshot_id, fields.required_string("snapshot_id"));
  CO_TRY(const auto force, fields.boolean("force"));
  CO_TRY(const auto sandbox,
         co_await snapshots_.restore(exchange.principal().team_id, std::move(id), snapshot_id,
                                     force.value_or(false)));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"sandbox_id", sandbox.id},
                                       {"snapshot_id", snapshot_id},
                                       {"status", control::status_name(sandbox.status)}})));
}

Task<> StateRoutes::fork(NativeExchange& exchange, std::string id) {
  CO_TRY(auto once, co_await read_once(exchange));
  CO_TRY(const auto fields, Fields::of(once.body, "", {"config", "count", "start", "memory"}));
  CO_TRY(const auto config, fields.object("config", {"ttl", "hard_ttl", "network"}));
  const Json* asked = once.body.find("memory");
  const auto* word = asked == nullptr ? nullptr : asked->as_string();
  const bool warm = word != nullptr && *word == "interpreters";
  const auto memory = warm ? Result<std::optional<bool>>{false} : fields.boolean("memory");
  CO_TRY_DO(memory);
  if (memory->value_or(false) && !sandboxes_.dumps_memory()) {
    co_return fail(Code::kUnimplemented,
                   concat("a fork cannot take running processes along here: ",
                          sandboxes_.dumps_memory_reason()),
                   "memory_fork");
  }
  control::ForkRequest request;
  CO_TRY(const auto count, fields.integer("count", 1, control::kMaxClaimCount));
  CO_TRY(const auto start, fields.boolean("start"));
  CO_TRY(request.ttl_seconds, config.integer("ttl", 0, control::kMaxTtlSeconds));
  CO_TRY(request.hard_ttl_seconds, config.integer("hard_ttl", 0, control::kMaxTtlSeconds));
  CO_TRY(request.network, parse_config_network(once.body));
  request.count = static_cast<std::size_t>(count.value_or(1));
  request.start = start.value_or(false);
  request.memory = memory->value_or(false);
  if (once.key) {
    request.once = control::ClaimOnce{.key = *std::move(once.key),
                                      .body_sha256 = std::move(once.digest),
                                      .remember = [this, id](const control::ClaimAnswer& answer) {
                                        return remember_answer(201, fork_json(id, answer));
                                      }};
  }
  const std::string team_id = exchange.principal().team_id;
  auto forked = warm ? warm_forks_.fork(team_id, id, std::move(request))
                     : snapshots_.fork(team_id, id, std::move(request));
  CO_TRY(const auto answer, co_await std::move(forked));
  if (answer.remembered) {
    CO_TRY(auto again, repeat_answer(*answer.remembered));
    co_return co_await exchange.respond(std::move(again));
  }
  co_return co_await exchange.respond(data_response(201, fork_json(id, answer)));
}

Json StateRoutes::fork_json(const std::string& source_id,
                            const control::ClaimAnswer& answer) const {
  const auto view = [this](const control::Sandbox& child) {
    return sandbox_json(
        child, sandboxes_.idle_expires_at(child.id),
        published_ == nullptr ? Json::array() : published_->services_json(child.id));
  };
  Json list = Json::array();
  for (const auto& child : answer.sandboxes) {
    list.push(view(child));
  }
  Json json = Json::object({{"source_sandbox_id", source_id},
                            {"sandbox", view(answer.sandboxes.front())},
                            {"sandboxes", std::move(list)}});
  if (answer.interpreters) {
    json.set("interpreters", interpreters_json(*answer.interpreters));
  }
  return json;
}

Task<> StateRoutes::tree(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto members,
         co_await snapshots_.lineage().tree_of(exchange.principal().team_id, std::move(id)));
  co_return co_await exchange.respond(data_response(200, tree_json(members)));
}

Task<> StateRoutes::trees(NativeExchange& exchange) {
  CO_TRY(const auto members, co_await snapshots_.lineage().trees(exchange.principal().team_id));
  co_return co_await exchange.respond(data_response(200, tree_json(members)));
}

}  // namespace atl::service::native
