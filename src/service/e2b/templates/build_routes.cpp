#include "service/e2b/templates/build_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/e2b/sandboxes/snapshot_names.h"
#include "service/e2b/templates/build_request.h"
#include "service/e2b/templates/template_json.h"

namespace atl::service::e2b {
namespace {

using control::BuildStatus;
using control::FamilyBuild;
using control::Permission;

constexpr std::int64_t kMaxEntries = 100;
constexpr std::size_t kReasonEntries = 10;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::int64_t kMaxCpuCount = 1024;
constexpr std::int64_t kMaxMemoryMb = std::int64_t{1} << 24;

std::vector<LogEntry> read_entries(const std::vector<std::string>& lines, UnixMillis begin) {
  std::vector<LogEntry> entries;
  for (const std::string& line : lines) {
    entries.push_back(read_entry(line, begin));
    begin = entries.back().at;
  }
  return entries;
}

Json entries_json(const std::vector<LogEntry>& entries, int level) {
  Json list = Json::array();
  for (const LogEntry& entry : entries) {
    if (is_at_least(entry, level)) {
      list.push(entry_json(entry));
    }
  }
  return list;
}

Result<int> level_of(const std::string& query) {
  const auto text = http::query_value(query, "level");
  return text ? parse_level(*text) : Result<int>{0};
}

Result<const FamilyBuild*> find_build(const control::FamilyPointer& family,
                                      const std::string& build_id) {
  const FamilyBuild* const build = family->build(build_id);
  if (build == nullptr) {
    return fail(Code::kNotFound,
                concat("template '", family->id, "' has no build '", to_valid_utf8(build_id), "'"));
  }
  return build;
}

}  // namespace

void BuildRoutes::add_to(E2bRoutes& routes) {
  const auto write = [&](std::string_view pattern, std::string_view field) {
    routes.add("POST", pattern, Permission::kTemplateWrite,
               [this, field](E2bExchange& e, const auto&) { return request(e, field, ""); });
  };
  write("/v3/templates", "name");
  write("/v2/templates", "alias");
  write("/templates", "alias");
  routes.add("POST", "/templates/{id}", Permission::kTemplateWrite,
             [this](E2bExchange& e, const auto& p) { return request(e, "", parameter(p, "id")); });
  const auto of_build =
      [&](std::string_view method, std::string_view pattern, Permission permission,
          Task<> (BuildRoutes::*handler)(E2bExchange&, std::string, std::string)) {
        routes.add(method, pattern, permission, [this, handler](E2bExchange& e, const auto& p) {
          return (this->*handler)(e, parameter(p, "id"), parameter(p, "build"));
        });
      };
  of_build("POST", "/v2/templates/{id}/builds/{build}", Permission::kTemplateWrite,
           &BuildRoutes::start);
  of_build("GET", "/templates/{id}/builds/{build}/status", Permission::kTemplateRead,
           &BuildRoutes::status);
  of_build("GET", "/templates/{id}/builds/{build}/logs", Permission::kTemplateRead,
           &BuildRoutes::logs);
  of_build("GET", "/templates/{id}/files/{build}", Permission::kTemplateWrite, &BuildRoutes::link);
  routes.add_public("PUT", "/templates/{id}/files/{hash}", [this](E2bExchange& e, const auto& p) {
    return upload(e, parameter(p, "hash"));
  });
}

// A new template has its name in the body; one that is built again is in the path.
Task<> BuildRoutes::request(E2bExchange& exchange, std::string_view name_field,
                            std::string rebuilt) {
  const std::string& team_id = exchange.principal().team_id;
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields,
         LenientFields::of(body, "", {"name", "alias", "tags", "cpuCount", "memoryMB"}));
  control::NewBuild asked{.team_id = team_id};
  if (rebuilt.empty()) {
    CO_TRY(const auto name, fields->string(name_field));
    CO_TRY(const auto alias, fields->string("alias"));
    asked.name = name.value_or(alias.value_or(""));
  } else {
    CO_TRY(const auto family, parts_.catalog.own(team_id, rebuilt));
    asked.name = family->alias;
  }
  CO_TRY(asked.tags, fields->strings("tags"));
  CO_TRY(const auto cpu_count, fields->integer("cpuCount", 1, kMaxCpuCount));
  CO_TRY(const auto memory_mb, fields->integer("memoryMB", 1, kMaxMemoryMb));
  asked.cpu_count = cpu_count.value_or(0);
  asked.memory_mb = memory_mb.value_or(0);
  CO_TRY(const auto title, control::parse_title(asked.name));
  if (!parts_.catalog.find(team_id, asked.name) &&
      has_snapshot_alias(parts_.snapshots, team_id, title.alias)) {
    co_return fail(Code::kAlreadyExists, concat("there is a snapshot \"", title.alias,
                                                "\"; a template needs another name"));
  }
  CO_TRY(const auto made, co_await parts_.catalog.request_build(std::move(asked)));
  const control::TemplateFamily& family = *made.family;
  co_return co_await exchange.respond_json(
      202, Json::object({{"templateID", family.id},
                         {"buildID", made.build_id},
                         {"public", family.is_public},
                         {"names", strings_json({full_name(family)})},
                         {"aliases", strings_json({family.alias})},
                         {"tags", strings_json(family.build(made.build_id)->tags)}}));
}

// --- files -----------------------------------------------------------------------------------

Task<> BuildRoutes::link(E2bExchange& exchange, std::string id, std::string hash) {
  const std::string& team_id = exchange.principal().team_id;
  CO_TRY(const auto family, parts_.catalog.own(team_id, id));
  CO_TRY_DO(control::check_files_hash(hash));
  std::string_view host = exchange.request().headers.get("Host");
  if (host.empty()) {
    host = parts_.names.server;
  }
  const std::string url = concat(parts_.names.scheme, "://", host, "/templates/", family->id,
                                 "/files/", hash, "?", links_.query_for({team_id, hash}));
  // With a link also when they are here: a client may want to send them again.
  co_return co_await exchange.respond_json(
      201, Json::object({{"present", parts_.files.find(team_id, hash) != nullptr}, {"url", url}}));
}

Task<> BuildRoutes::upload(E2bExchange& exchange, std::string hash) {
  CO_TRY(const UploadGrant grant, links_.check(exchange.request().query, hash));
  CO_TRY_DO(control::check_files_hash(hash));
  const auto length = exchange.body().length();
  if (!length) {
    co_return co_await exchange.respond(error_response(411, "the upload needs a Content-Length"));
  }
  CO_TRY(auto kept, parts_.files.begin(grant.team_id, *length));
  std::string buffer(kPieceBytes, '\0');
  std::uint64_t received = 0;
  for (;;) {
    CO_TRY(const std::size_t got, co_await exchange.body().read(buffer));
    if (got == 0) {
      break;
    }
    received += got;
    CO_TRY_DO(co_await parts_.files.append(*kept, std::string_view{buffer}.substr(0, got)));
  }
  if (received != *length) {
    co_return fail(Code::kInvalidArgument, "the upload is shorter than its Content-Length");
  }
  parts_.files.keep(grant.team_id, hash, std::move(kept), received);
  co_return co_await exchange.respond_empty(200);
}

// --- builds ----------------------------------------------------------------------------------

Task<> BuildRoutes::start(E2bExchange& exchange, std::string id, std::string build_id) {
  const std::string& team_id = exchange.principal().team_id;
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(auto build, parse_build_start(body));
  for (const control::BuildStep& step : build.steps) {
    if (step.kind == control::BuildStep::Kind::kCopy) {
      if (auto files = parts_.files.find(team_id, step.files_hash)) {
        build.files.insert_or_assign(step.files_hash, std::move(files));
      }
    }
  }
  CO_TRY_DO(co_await parts_.catalog.begin_build(team_id, std::move(id), std::move(build_id),
                                                std::move(build)));
  co_return co_await exchange.respond_empty(202);
}

std::vector<std::string> BuildRoutes::lines_of(const FamilyBuild& build, std::uint64_t from,
                                               std::size_t limit) const {
  const auto log = parts_.jobs.log(build.template_name);
  return log ? (*log)->read(from, limit) : std::vector<std::string>{};
}

Task<> BuildRoutes::status(E2bExchange& exchange, std::string id, std::string build_id) {
  const std::string& query = exchange.request().query;
  CO_TRY(const auto family, parts_.catalog.own(exchange.principal().team_id, id));
  CO_TRY(const FamilyBuild* const build, find_build(family, build_id));
  CO_TRY(const auto offset, query_integer(query, "logsOffset", 0, INT64_MAX));
  CO_TRY(const auto limit, query_integer(query, "limit", 0, kMaxEntries));
  CO_TRY(const int level, level_of(query));
  const auto entries = read_entries(lines_of(*build, static_cast<std::uint64_t>(offset.value_or(0)),
                                             static_cast<std::size_t>(limit.value_or(kMaxEntries))),
                                    build->created_at);
  Json json = Json::object({{"templateID", family->id},
                            {"buildID", build->id},
                            {"status", control::build_status_name(build->status)},
                            {"logs", Json::array()},
                            {"logEntries", entries_json(entries, level)}});
  if (build->status == BuildStatus::kError) {
    auto said = read_entries(lines_of(*build, 0, SIZE_MAX), build->created_at);
    std::erase_if(said, [&](const LogEntry& entry) { return entry.step != build->failed_step; });
    said.erase(said.begin(),
               said.end() - static_cast<std::ptrdiff_t>(std::min(said.size(), kReasonEntries)));
    json.set("reason", Json::object({{"message", build->failure},
                                     {"step", build->failed_step},
                                     {"logEntries", entries_json(said, 0)}}));
  }
  co_return co_await exchange.respond_json(200, json);
}

// From a moment on, forwards, or back from it.
Task<> BuildRoutes::logs(E2bExchange& exchange, std::string id, std::string build_id) {
  const std::string& query = exchange.request().query;
  CO_TRY(const auto family, parts_.catalog.own(exchange.principal().team_id, id));
  CO_TRY(const FamilyBuild* const build, find_build(family, build_id));
  CO_TRY(const auto cursor, query_integer(query, "cursor", 0, INT64_MAX));
  CO_TRY(const auto limit, query_integer(query, "limit", 0, kMaxEntries));
  CO_TRY(const int level, level_of(query));
  const bool backward = http::query_value(query, "direction").value_or("forward") == "backward";
  auto entries = read_entries(lines_of(*build, 0, SIZE_MAX), build->created_at);
  std::erase_if(entries, [&](const LogEntry& entry) {
    return !is_at_least(entry, level) ||
           (cursor && (backward ? entry.at > *cursor : entry.at < *cursor));
  });
  if (backward) {
    std::ranges::reverse(entries);
  }
  entries.resize(std::min(entries.size(), static_cast<std::size_t>(limit.value_or(kMaxEntries))));
  co_return co_await exchange.respond_json(200, Json::object({{"logs", entries_json(entries, 0)}}));
}

}  // namespace atl::service::e2b
