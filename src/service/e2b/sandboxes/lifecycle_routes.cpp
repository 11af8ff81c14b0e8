#include "service/e2b/sandboxes/lifecycle_routes.h"

#include "base/random.h"
#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/e2b/sandboxes/snapshot_names.h"
#include "service/native/idempotency.h"

namespace atl::service::e2b {
namespace {

using control::PauseMemory;
using control::Permission;
using control::Sandbox;
using control::SandboxStatus;

// A sandbox may change its state while somebody waits for it.
constexpr int kMaxRounds = 3;

Error paused_error(const Sandbox& sandbox) {
  return {Code::kFailedPrecondition, concat("sandbox \"", sandbox.id, "\" is already paused")};
}

}  // namespace

void LifecycleRoutes::add_to(E2bRoutes& routes) {
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  const auto add = [&](std::string_view method, std::string_view pattern, Permission permission,
                       Task<> (LifecycleRoutes::*handler)(E2bExchange&, std::string)) {
    routes.add(method, pattern, permission,
               [this, id_of, handler](E2bExchange& exchange, const auto& parameters) {
                 return (this->*handler)(exchange, id_of(parameters));
               });
  };
  for (const auto version : {CreateVersion::kV1, CreateVersion::kV2}) {
    const std::string all = version == CreateVersion::kV1 ? "/sandboxes" : "/v2/sandboxes";
    routes.add("POST", all, Permission::kSandboxCreate,
               [this, version](E2bExchange& e, const auto&) { return create(e, version); });
    routes.add("POST", concat(all, "/{id}/connect"), Permission::kSandboxWrite,
               [this, id_of, version](E2bExchange& e, const auto& p) {
                 return connect(e, id_of(p), version);
               });
  }
  add("POST", "/sandboxes/{id}/resume", Permission::kSandboxWrite, &LifecycleRoutes::resume);
  add("GET", "/sandboxes/{id}", Permission::kSandboxRead, &LifecycleRoutes::get);
  add("DELETE", "/sandboxes/{id}", Permission::kSandboxDelete, &LifecycleRoutes::remove);
  add("POST", "/sandboxes/{id}/pause", Permission::kSandboxWrite, &LifecycleRoutes::pause);
  add("POST", "/sandboxes/{id}/timeout", Permission::kSandboxWrite, &LifecycleRoutes::set_timeout);
  add("POST", "/sandboxes/{id}/refreshes", Permission::kSandboxWrite, &LifecycleRoutes::refresh);
}

Task<> LifecycleRoutes::create(E2bExchange& exchange, CreateVersion version) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(NewSandbox made, parse_new_sandbox(body, version));
  const std::string team_id = exchange.principal().team_id;
  for (const ClaimMapper& mapper : mappers_) {
    CO_TRY_DO(mapper(team_id, body, made));
  }
  if (!made.terms.public_traffic && !made.terms.secure) {
    co_return fail(Code::kInvalidArgument,
                   "network.allowPublicTraffic: false needs a secure sandbox");
  }
  CO_TRY(auto key, native::idempotency_key(exchange.request()));
  if (key) {
    made.claim.once = control::ClaimOnce{
        .key = *std::move(key),
        .body_sha256 = sha256(concat(exchange.request().path, " ", body.dump())),
        .remember = [](const control::ClaimAnswer& answer) { return answer.sandboxes.front().id; }};
  }
  CO_TRY(const auto answer, co_await claim(team_id, std::move(made)));
  const std::string id = answer.remembered ? *answer.remembered : answer.sandboxes.front().id;
  CO_TRY(const Sandbox sandbox, find_own(parts_, exchange, id));
  co_return co_await exchange.respond_json(201, sandbox_json(parts_, sandbox));
}

Task<control::ClaimAnswer> LifecycleRoutes::claim(std::string team_id, NewSandbox made) {
  made.claim.team_id = team_id;
  made.claim.documents.push_back(control::SandboxTerms::document(made.terms));
  auto name = parts_.templates.resolve(team_id, made.asked_template);
  const auto snapshot = find_snapshot(parts_.snapshots, team_id, made.asked_template);
  if (name && !(snapshot && is_exactly(*snapshot, made.asked_template))) {
    made.claim.template_name = *std::move(name);
    co_return co_await parts_.sandboxes.claim_all(std::move(made.claim));
  }
  if (snapshot) {
    made.claim.memory = true;
    auto claimed = co_await parts_.snapshots.claim(snapshot->id, made.claim);
    if (!claimed && claimed.error().reason == "snapshot_without_memory") {
      made.claim.memory = false;
      claimed = co_await parts_.snapshots.claim(snapshot->id, std::move(made.claim));
    }
    co_return std::move(claimed);
  }
  if (made.has_mcp) {
    co_return fail(Code::kNotFound,
                   concat("this server has no template \"", to_valid_utf8(made.asked_template),
                          "\": MCP needs one that has the program mcp-gateway; build it first"));
  }
  co_return fail(std::move(name).error());
}

// Waits for whatever is happening to it, also when there is nothing to change.
Task<Sandbox> LifecycleRoutes::extend(Sandbox sandbox, std::int64_t seconds) {
  const UnixMillis end = parts_.clock.now() + seconds * 1000;
  control::SandboxUpdate change;
  if (sandbox.expires_at && *sandbox.expires_at < end) {
    change.ttl_seconds = seconds;
  }
  co_return co_await parts_.sandboxes.update(sandbox.team_id, sandbox.id, std::move(change));
}

Task<LifecycleRoutes::Resumed> LifecycleRoutes::go_on(E2bExchange& exchange, std::string id,
                                                      Resumption how) {
  CO_TRY_DO(check_timeout(how.timeout_seconds));
  for (int round = 0; round < kMaxRounds; ++round) {
    if (const auto any = parts_.sandboxes.get(exchange.principal().team_id, id);
        any && any->status == SandboxStatus::kTerminating) {
      co_return fail(Code::kAborted, concat("sandbox \"", any->id, "\" is being killed"));
    }
    CO_TRY(Sandbox sandbox, find_own(parts_, exchange, id));
    if (is_running(sandbox)) {
      if (how.must_be_paused) {
        co_return fail(Code::kFailedPrecondition,
                       concat("sandbox \"", sandbox.id, "\" is already running"));
      }
      CO_TRY(sandbox, co_await extend(std::move(sandbox), how.timeout_seconds));
      if (is_running(sandbox)) {
        co_return Resumed{std::move(sandbox), false};
      }
    }
    if (!how.memory) {
      CO_TRY_DO(co_await parts_.sandboxes.pause(sandbox.team_id, sandbox.id, PauseMemory::kDrop));
    }
    CO_TRY_DO(co_await parts_.sandboxes.update(sandbox.team_id, sandbox.id,
                                               {.ttl_seconds = how.timeout_seconds}));
    CO_TRY(auto resumed, co_await parts_.sandboxes.resume(sandbox.team_id, sandbox.id));
    if (is_running(resumed.sandbox)) {
      co_return Resumed{std::move(resumed.sandbox), true};
    }
  }
  co_return fail(Code::kAborted,
                 concat("sandbox \"", to_valid_utf8(id), "\" keeps changing its state; try again"));
}

Task<> LifecycleRoutes::connect(E2bExchange& exchange, std::string id, CreateVersion version) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"timeout", "memory"}));
  CO_TRY(const auto timeout, fields->integer("timeout", INT64_MIN, INT64_MAX));
  CO_TRY(const auto memory, fields->boolean("memory"));
  if (!timeout && version == CreateVersion::kV1) {
    co_return fail(Code::kInvalidArgument, "timeout is missing");
  }
  CO_TRY(const auto resumed,
         co_await go_on(exchange, std::move(id),
                        {.timeout_seconds = timeout.value_or(kDefaultTimeoutSeconds),
                         .memory = memory.value_or(true)}));
  co_return co_await exchange.respond_json(resumed.was_paused ? 201 : 200,
                                           sandbox_json(parts_, resumed.sandbox));
}

Task<> LifecycleRoutes::resume(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"timeout", "memory", "autoPause"}));
  CO_TRY(const auto timeout, fields->integer("timeout", INT64_MIN, INT64_MAX));
  CO_TRY(const auto memory, fields->boolean("memory"));
  CO_TRY(const auto auto_pause, fields->boolean("autoPause"));
  CO_TRY(const auto resumed,
         co_await go_on(exchange, std::move(id),
                        {.timeout_seconds = timeout.value_or(kShortTimeoutSeconds),
                         .memory = memory.value_or(true),
                         .must_be_paused = true}));
  const Sandbox& sandbox = resumed.sandbox;
  if (auto_pause) {
    control::Terms terms = *parts_.terms.of(sandbox);
    terms.ttl_end = *auto_pause ? control::TtlEnd::kPause : control::TtlEnd::kDelete;
    CO_TRY_DO(co_await parts_.terms.put(sandbox.team_id, sandbox.id, std::move(terms)));
  }
  co_return co_await exchange.respond_json(201, sandbox_json(parts_, sandbox));
}

Task<> LifecycleRoutes::get(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  co_return co_await exchange.respond_json(200, detail_json(parts_, sandbox, exchange.principal()));
}

Task<> LifecycleRoutes::remove(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  CO_TRY_DO(co_await parts_.sandboxes.remove(sandbox.team_id, sandbox.id));
  co_return co_await exchange.respond_empty(204);
}

Task<> LifecycleRoutes::pause(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"memory"}));
  CO_TRY(const auto memory, fields->boolean("memory"));
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  if (!is_running(sandbox)) {
    co_return fail(paused_error(sandbox));
  }
  CO_TRY_DO(co_await parts_.sandboxes.pause(
      sandbox.team_id, sandbox.id,
      memory.value_or(true) ? PauseMemory::kKeep : PauseMemory::kDrop));
  parts_.log.add(sandbox.id, {.source = "sandbox", .message = "paused"});
  co_return co_await exchange.respond_empty(204);
}

Task<> LifecycleRoutes::set_timeout(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"timeout"}));
  CO_TRY(const auto timeout, fields->integer("timeout", 0, kMaxTimeoutSeconds));
  if (!timeout) {
    co_return fail(Code::kInvalidArgument, "timeout is missing");
  }
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  if (!is_running(sandbox)) {
    co_return fail(Code::kNotFound, concat("sandbox \"", sandbox.id, "\" is not running"));
  }
  // For control nothing means without end; here it means now.
  const std::int64_t seconds = std::max<std::int64_t>(*timeout, 1);
  CO_TRY_DO(
      co_await parts_.sandboxes.update(sandbox.team_id, sandbox.id, {.ttl_seconds = seconds}));
  co_return co_await exchange.respond_empty(204);
}

Task<> LifecycleRoutes::refresh(E2bExchange& exchange, std::string id) {
  constexpr std::int64_t kMaxRefreshSeconds = 3600;
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"duration"}));
  CO_TRY(const auto duration, fields->integer("duration", 0, kMaxRefreshSeconds));
  CO_TRY(auto sandbox, find_own(parts_, exchange, id));
  if (!is_running(sandbox)) {
    co_return fail(Code::kNotFound, concat("sandbox \"", sandbox.id, "\" is not running"));
  }
  CO_TRY_DO(co_await extend(std::move(sandbox), duration.value_or(kShortTimeoutSeconds)));
  co_return co_await exchange.respond_empty(204);
}

}  // namespace atl::service::e2b
