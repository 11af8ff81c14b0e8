#include "service/native/template_routes.h"

#include "base/strings.h"
#include "control/limits.h"
#include "control/preloaded.h"
#include "control/prepared_cells.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::Permission;
using control::Template;

constexpr std::size_t kPieceBytes = 1U << 20;
// A client that left is noticed by the next write, so there is one at least this often.
constexpr Duration kAliveInterval = std::chrono::seconds{10};

Result<std::optional<oci::RegistryLogin>> parse_login(const Fields& fields) {
  if (!fields.has("registry_auth")) {
    return std::nullopt;
  }
  TRY(const auto login, fields.object("registry_auth", {"username", "password"}));
  TRY(std::string username, login.required_string("username"));
  TRY(std::string password, login.required_string("password"));
  return oci::RegistryLogin{std::move(username), Secret{std::move(password)}};
}

Result<control::PullOptions> parse_pull(const Fields& fields) {
  control::PullOptions options;
  TRY(options.login, parse_login(fields));
  TRY(const auto insecure, fields.boolean("insecure_registry"));
  options.verify_tls = !insecure.value_or(false);
  return options;
}

// base64 of {"username": ..., "password": ...}: requests whose body is an archive.
Result<std::optional<oci::RegistryLogin>> login_header(const http::Headers& headers) {
  const auto value = trim(headers.get("X-Registry-Auth"));
  if (value.empty()) {
    return std::nullopt;
  }
  const auto text = base64_decode(value);
  const auto json = text ? Json::parse(*text) : Result<Json>{fail(Code::kInvalidArgument, "")};
  if (!json) {
    return fail(Code::kInvalidArgument, "header X-Registry-Auth must be base64 of a JSON object");
  }
  TRY(const auto login, Fields::of(*json, "X-Registry-Auth", {"username", "password"}));
  TRY(std::string username, login.required_string("username"));
  TRY(std::string password, login.required_string("password"));
  return oci::RegistryLogin{std::move(username), Secret{std::move(password)}};
}

// arg=NAME=value, any number of times.
Result<std::map<std::string, std::string, std::less<>>> build_arguments(std::string_view query) {
  std::map<std::string, std::string, std::less<>> arguments;
  for (const std::string_view pair : split(query, '&')) {
    if (!pair.starts_with("arg=")) {
      continue;
    }
    const auto text = http::percent_decode(pair.substr(4), true);
    const auto equals = text ? text->find('=') : std::string::npos;
    if (equals == std::string::npos || equals == 0) {
      return fail(Code::kInvalidArgument, "query parameter \"arg\" must be NAME=value");
    }
    arguments.insert_or_assign(text->substr(0, equals), text->substr(equals + 1));
  }
  return arguments;
}

Result<control::BuildOptions> parse_build(const http::Request& request) {
  control::BuildOptions options;
  options.dockerfile = http::query_value(request.query, "dockerfile").value_or("Dockerfile");
  options.target = http::query_value(request.query, "target").value_or("");
  options.network = http::query_value(request.query, "network").value_or("none");
  TRY(const bool no_cache, query_boolean(request.query, "no_cache"));
  options.use_cache = !no_cache;
  TRY(options.arguments, build_arguments(request.query));
  TRY(options.pull.login, login_header(request.headers));
  TRY(const bool insecure, query_boolean(request.query, "insecure_registry"));
  options.pull.verify_tls = !insecure;
  return options;
}

Json names_json(const std::vector<std::string>& names) {
  Json json = Json::array();
  for (const std::string& name : names) {
    json.push(name);
  }
  return json;
}

Json spec_json(const Template& value, const control::TemplateDefaults& defaults,
               const control::PreparedCells* prepared) {
  if (value.builtin) {
    Json spec = Json::object(
        {{"displayName", value.name},
         {"mainContainer", Json::object({{"image", concat("builtin:", value.name)},
                                         {"resources", Json::object({{"memory", "2Gi"}})}})}});
    if (prepared != nullptr) {
      const control::PoolBounds pool = prepared->bounds_of(value.name);
      spec.set("pool", Json::object({{"minIdle", pool.min_idle}, {"maxIdle", pool.max_idle}}));
    }
    if (!defaults.preload.empty()) {
      spec.set("preload", names_json(defaults.preload));
    }
    return spec;
  }
  auto spec = Json::parse(value.spec);
  return spec ? *std::move(spec) : Json::object();
}

std::string_view state_name(control::PreloadReport::State state) {
  using State = control::PreloadReport::State;
  switch (state) {
    case State::kNone:
      return "none";
    case State::kMaking:
      return "making";
    case State::kReady:
      return "ready";
    case State::kFailed:
      return "failed";
  }
  return "none";
}

Json preload_json(const control::PreloadReport& report, const control::TemplateDefaults& defaults) {
  Json failed = Json::array();
  for (const control::PreloadFailure& failure : report.failures) {
    failed.push(Json::object({{"module", failure.module}, {"error", failure.error}}));
  }
  Json json = Json::object({{"state", state_name(report.state)},
                            {"modules", names_json(defaults.preload)},
                            {"failed", std::move(failed)}});
  if (!report.reason.empty()) {
    json.set("message", to_valid_utf8(report.reason));
  }
  if (report.memory_bytes > 0) {
    json.set("memory_bytes", report.memory_bytes);
  }
  return json;
}

}  // namespace

void TemplateRoutes::add_to(RouteTable& table) {
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  table.add("GET", "/api/v1/templates", Permission::kTemplateRead,
            [this](NativeExchange& e, const auto&) { return list(e); });
  table.add("GET", "/api/v1/templates/{id}", Permission::kTemplateRead,
            [this, id_of](NativeExchange& e, const auto& p) { return get(e, id_of(p)); });
  if (jobs_ == nullptr) {
    return;
  }
  const auto change = [&](std::string_view method, std::string_view pattern,
                          Task<> (TemplateRoutes::*handler)(NativeExchange&, std::string)) {
    table.add(method, pattern, Permission::kTemplateWrite,
              [this, id_of, handler](NativeExchange& e, const auto& p) {
                return (this->*handler)(e, to_lower(id_of(p)));
              });
  };
  table.add("POST", "/api/v1/templates", Permission::kTemplateWrite,
            [this](NativeExchange& e, const auto&) { return create(e); });
  const auto create_of = [&](std::string_view pattern, control::StateRef::Kind kind) {
    table.add("POST", pattern, Permission::kTemplateWrite,
              idempotency_.guard([this, kind](NativeExchange& e, const http::PathParameters&) {
                return create_from(e, kind);
              }));
  };
  create_of("/api/v1/templates/from-sandbox", control::StateRef::Kind::kSandbox);
  create_of("/api/v1/templates/from-snapshot", control::StateRef::Kind::kSnapshot);
  table.add("POST", "/api/v1/sandbox-rootfs-snapshots/import", Permission::kSandboxWrite,
            [this](NativeExchange& e, const auto&) { return import_snapshot(e); });
  change("PUT", "/api/v1/templates/{id}", &TemplateRoutes::update);
  change("DELETE", "/api/v1/templates/{id}", &TemplateRoutes::remove);
  change("POST", "/api/v1/templates/{id}/pull", &TemplateRoutes::pull);
  change("POST", "/api/v1/templates/{id}/build", &TemplateRoutes::build);
  change("POST", "/api/v1/templates/{id}/import", &TemplateRoutes::import);
  table.add("GET", "/api/v1/templates/{id}/logs", Permission::kTemplateRead,
            [this, id_of](NativeExchange& e, const auto& p) { return logs(e, id_of(p)); });
}

Result<Template> TemplateRoutes::visible(const NativeExchange& exchange,
                                         std::string_view id) const {
  return sandboxes_.templates().find(to_lower(id), exchange.principal().team_id);
}

Json TemplateRoutes::template_json(const Template& value) const {
  // Of the contract's stages, the one that every version of its SDKs knows.
  Json creation =
      Json::object({{"state", store::template_state_name(value.state)}, {"stage", "publishing"}});
  if (!value.failure.empty()) {
    creation.set("message", value.failure);
  }
  const control::PreparedCells* const prepared = sandboxes_.prepared();
  const std::size_t idle = prepared == nullptr ? 0 : prepared->idle_of(value.name);
  const control::TemplateDefaults& defaults = sandboxes_.templates().defaults(value.name);
  const auto report = contexts_.interpreters().preload_report(value.layers, defaults);
  Json json = Json::object(
      {{"template_id", value.name},
       {"scope", value.builtin ? "public" : "team"},
       {"team_id", value.builtin ? "" : value.team_id},
       {"user_id", ""},
       {"spec", spec_json(value, defaults, prepared)},
       {"status", Json::object({{"idleCount", idle},
                                {"activeCount", sandboxes_.count_of_template(value.name)},
                                {"conditions", Json::array()},
                                {"lastUpdateTime", rfc3339(value.updated_at)},
                                {"creation", std::move(creation)},
                                {"preload", preload_json(report, defaults)}})},
       {"created_at", rfc3339(value.created_at)},
       {"updated_at", rfc3339(value.updated_at)}});
  if (const auto config = Json::parse(value.config); !value.builtin && config) {
    json.set("image_config", *config);  // ours: what the image says about its processes
  }
  return json;
}

Task<> TemplateRoutes::list(NativeExchange& exchange) {
  Json templates = Json::array();
  std::size_t count = 0;
  for (const Template& value : sandboxes_.templates().all()) {
    if (value.builtin || value.team_id == exchange.principal().team_id) {
      templates.push(template_json(value));
      ++count;
    }
  }
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"templates", std::move(templates)}, {"count", count}})));
}

Task<> TemplateRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const Template value, visible(exchange, id));
  co_return co_await exchange.respond(data_response(200, template_json(value)));
}

Task<> TemplateRoutes::create(NativeExchange& exchange) {
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields,
         Fields::of(body, "", {"template_id", "spec", "registry_auth", "insecure_registry"}));
  CO_TRY(const std::string name, fields.required_string("template_id"));
  CO_TRY(auto options, parse_pull(fields));
  const Json* spec = body.find("spec");
  if (spec == nullptr) {
    co_return fail(Code::kInvalidArgument, "field \"spec\" is required");
  }
  CO_TRY(const Template value,
         co_await jobs_->create({exchange.principal().team_id, to_lower(name)}, *spec,
                                std::move(options)));
  co_return co_await exchange.respond(data_response(201, template_json(value)));
}

Task<> TemplateRoutes::create_from(NativeExchange& exchange, control::StateRef::Kind kind) {
  if (!exchange.principal().may(Permission::kSandboxRead)) {
    co_return fail(Code::kPermissionDenied, "the roles of this API key do not allow sandbox:read");
  }
  const std::string_view source =
      kind == control::StateRef::Kind::kSandbox ? "sandbox_id" : "snapshot_id";
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"template_id", source, "spec_overrides"}));
  CO_TRY(const std::string name, fields.required_string("template_id"));
  CO_TRY(std::string id, fields.required_string(source));
  CO_TRY_DO(
      fields.object("spec_overrides", {"description", "displayName", "tags", "pool", "preload"}));
  control::CaptureRequest request{.source = {kind, std::move(id)}, .overrides = {}};
  const Json* overrides = body.find("spec_overrides");
  if (overrides != nullptr && overrides->as_object() != nullptr) {
    for (const auto& [member, value] : *overrides->as_object()) {
      request.overrides.emplace(member, value);
    }
  }
  CO_TRY(
      const Template value,
      co_await jobs_->capture({exchange.principal().team_id, to_lower(name)}, std::move(request)));
  co_return co_await exchange.respond(data_response(202, template_json(value)));
}

Task<> TemplateRoutes::update(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY_DO(Fields::of(body, "", {"spec"}));
  const Json* spec = body.find("spec");
  if (spec == nullptr) {
    co_return fail(Code::kInvalidArgument, "field \"spec\" is required");
  }
  CO_TRY(const Template value,
         co_await jobs_->update({exchange.principal().team_id, std::move(id)}, *spec));
  co_return co_await exchange.respond(data_response(200, template_json(value)));
}

Task<> TemplateRoutes::remove(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(co_await jobs_->remove({exchange.principal().team_id, id}));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"message", concat("template ", id, " deleted")}})));
}

Task<> TemplateRoutes::pull(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_optional_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"registry_auth", "insecure_registry"}));
  CO_TRY(auto options, parse_pull(fields));
  CO_TRY(auto log, co_await jobs_->pull({exchange.principal().team_id, id}, std::move(options)));
  co_return co_await follow(exchange, std::move(id), std::move(log), false);
}

Task<> TemplateRoutes::build(NativeExchange& exchange, std::string id) {
  CO_TRY(auto options, parse_build(exchange.request()));
  CO_TRY_DO(jobs_->check_build({exchange.principal().team_id, id}, options));
  CO_TRY(auto upload, co_await receive_upload(exchange));
  CO_TRY(auto log, co_await jobs_->build({exchange.principal().team_id, id}, std::move(upload),
                                         std::move(options)));
  co_return co_await follow(exchange, std::move(id), std::move(log), true);
}

Task<> TemplateRoutes::import(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(jobs_->check_import({exchange.principal().team_id, id}));
  CO_TRY(auto upload, co_await receive_upload(exchange));
  CO_TRY(auto log, co_await jobs_->import({exchange.principal().team_id, id}, std::move(upload)));
  co_return co_await follow(exchange, std::move(id), std::move(log), true);
}

Task<> TemplateRoutes::import_snapshot(NativeExchange& exchange) {
  const std::string& query = exchange.request().query;
  CO_TRY_DO(allow_query(query, {"name", "description", "template_id"}));
  control::ImportRequest request{
      .team_id = exchange.principal().team_id,
      .template_name = to_lower(http::query_value(query, "template_id").value_or("default")),
      .snapshot = {.name = http::query_value(query, "name").value_or(""),
                   .description = http::query_value(query, "description").value_or(""),
                   .expires_at = std::nullopt}};
  CO_TRY_DO(jobs_->check_import_snapshot(request));
  CO_TRY(auto upload, co_await receive_upload(exchange));
  CO_TRY(const auto snapshot,
         co_await while_client_waits(
             exchange, jobs_->import_snapshot(std::move(upload), std::move(request))));
  co_return co_await exchange.respond(data_response(201, snapshot_json(snapshot)));
}

Task<> TemplateRoutes::logs(NativeExchange& exchange, std::string id) {
  CO_TRY(const Template value, visible(exchange, id));
  CO_TRY(auto log, jobs_->log(value.name));
  co_return co_await follow(exchange, value.name, std::move(log), false);
}

Task<control::UploadPointer> TemplateRoutes::receive_upload(NativeExchange& exchange) {
  CO_TRY(auto upload,
         jobs_->begin_upload(exchange.principal().team_id, exchange.body().length().value_or(0)));
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      CO_TRY(const std::size_t got,
             co_await exchange.body().read(std::span{buffer}.subspan(filled)));
      if (got == 0) {
        break;
      }
      filled += got;
    }
    if (filled > 0) {
      CO_TRY_DO(co_await jobs_->append_upload(*upload, {buffer.data(), filled}));
    }
    if (filled < buffer.size()) {
      co_return std::move(upload);
    }
  }
}

Task<> TemplateRoutes::follow(NativeExchange& exchange, std::string id,
                              std::shared_ptr<control::BuildLog> log, bool owner) {
  CO_TRY_DO(co_await exchange.start(
      200, {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"}},
      std::nullopt));
  std::uint64_t from = 0;
  for (;;) {
    auto piece = co_await with_deadline(kAliveInterval, log->next(from));
    if (!piece && piece.error().code == Code::kDeadlineExceeded) {
      piece = std::string{"{\"type\":\"alive\"}\n"};
    }
    Result<> written = piece ? Result<>{} : Result<>{fail(piece.error())};
    if (piece && piece->empty()) {
      co_return co_await exchange.finish();
    }
    if (piece) {
      written = co_await exchange.write(*piece);
    }
    if (!written) {
      if (owner) {
        jobs_->cancel(id);
      }
      co_return fail(std::move(written).error());
    }
  }
}

}  // namespace atl::service::native
