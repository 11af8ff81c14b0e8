#include "service/e2b/templates/template_json.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "control/resources.h"
#include "service/e2b/sandboxes/sandbox_view.h"
#include "service/e2b/templates/catalog_names.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

using control::BuildStatus;
using control::FamilyBuild;
using control::TemplateFamily;
using native::rfc3339;

constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warn", "error"};
constexpr std::string_view kNoBuild = "00000000-0000-0000-0000-000000000000";

struct Sizes {
  std::int64_t cpu_count = 1;
  std::int64_t memory_mb = 0;
  std::int64_t disk_mb = 0;
};

// What is not asked for is what this server gives.
Sizes sizes_of(std::int64_t cpu_count, std::int64_t memory_mb) {
  const control::ResourcePolicy policy = control::host_resource_policy();
  const std::int64_t cores = (policy.default_cpu_millis + 999) / 1000;
  return {.cpu_count = cpu_count > 0 ? cpu_count : cores,
          .memory_mb = memory_mb > 0 ? memory_mb
                                     : static_cast<std::int64_t>(policy.default_memory_bytes >> 20),
          .disk_mb = static_cast<std::int64_t>(policy.default_disk_bytes >> 20)};
}

Json template_json(std::string_view id, std::string_view build_id, const Sizes& sizes,
                   BuildStatus status) {
  return Json::object({{"templateID", id},
                       {"buildID", build_id},
                       {"cpuCount", sizes.cpu_count},
                       {"memoryMB", sizes.memory_mb},
                       {"diskSizeMB", sizes.disk_mb},
                       {"createdBy", Json{}},
                       {"envdVersion", kEnvdVersion},
                       {"buildStatus", control::build_status_name(status)}});
}

void set_use(Json& json, const control::TemplateUse& use) {
  json.set("spawnCount", use.count);
  json.set("lastSpawnedAt", use.count == 0 ? Json{} : Json{rfc3339(use.last_at)});
}

const FamilyBuild* shown_build(const TemplateFamily& family) {
  if (const FamilyBuild* chosen = family.choose("")) {
    return chosen;
  }
  if (const FamilyBuild* ready = family.newest_ready()) {
    return ready;
  }
  return family.builds.empty() ? nullptr : &family.builds.back();
}

std::string text_of(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
}

}  // namespace

Json strings_json(const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const std::string& value : values) {
    list.push(value);
  }
  return list;
}

std::string full_name(const TemplateFamily& family) {
  return concat(family.team_id, "/", family.alias);
}

Json family_json(const TemplateFamily& family, const control::Templates& templates) {
  control::TemplateUse use;
  for (const FamilyBuild& each : family.builds) {
    const control::TemplateUse one = templates.use_of(each.template_name);
    use.count += one.count;
    use.last_at = std::max(use.last_at, one.last_at);
  }
  const FamilyBuild* const build = shown_build(family);
  const Sizes sizes =
      sizes_of(build == nullptr ? 0 : build->cpu_count, build == nullptr ? 0 : build->memory_mb);
  Json json = template_json(family.id, build == nullptr ? kNoBuild : std::string_view{build->id},
                            sizes, build == nullptr ? BuildStatus::kWaiting : build->status);
  json.set("public", family.is_public);
  json.set("aliases", strings_json({family.alias}));
  json.set("names", strings_json({full_name(family)}));
  json.set("createdAt", rfc3339(family.created_at));
  json.set("updatedAt", rfc3339(family.updated_at));
  set_use(json, use);
  json.set("buildCount", family.builds.size());
  json.set("isDefault", false);
  return json;
}

Json plain_json(const control::Template& row, const control::Templates& templates,
                std::string_view team_id) {
  const BuildStatus status = row.state == control::TemplateState::kReady ? BuildStatus::kReady
                             : row.state == control::TemplateState::kFailed
                                 ? BuildStatus::kError
                                 : BuildStatus::kBuilding;
  Json json =
      template_json(control::derived_template_id(row.name), kNoBuild, sizes_of(0, 0), status);
  const std::string alias = plain_alias(row);
  json.set("public", row.builtin);
  json.set("aliases", strings_json({alias}));
  json.set("names", strings_json({row.builtin ? alias : concat(team_id, "/", alias)}));
  json.set("createdAt", rfc3339(row.created_at));
  json.set("updatedAt", rfc3339(row.updated_at));
  set_use(json, templates.use_of(row.name));
  json.set("buildCount", 0);
  json.set("isDefault", row.builtin);
  return json;
}

Json build_json(const FamilyBuild& build) {
  const Sizes sizes = sizes_of(build.cpu_count, build.memory_mb);
  Json json = Json::object({{"buildID", build.id},
                            {"status", control::build_status_name(build.status)},
                            {"createdAt", rfc3339(build.created_at)},
                            {"updatedAt", rfc3339(build.updated_at)},
                            {"cpuCount", sizes.cpu_count},
                            {"memoryMB", sizes.memory_mb},
                            {"diskSizeMB", sizes.disk_mb},
                            {"envdVersion", kEnvdVersion}});
  if (build.finished_at) {
    json.set("finishedAt", rfc3339(*build.finished_at));
  }
  return json;
}

LogEntry read_entry(const std::string& line, UnixMillis before) {
  const auto json = Json::parse(line);
  LogEntry entry{.at = before, .level = "info", .step = "base", .message = ""};
  if (!json) {
    return entry;
  }
  const std::string type = text_of(*json, "type");
  entry.message = text_of(*json, type == "error" ? "message" : "text");
  if (type == "entry") {
    entry.level = text_of(*json, "level");
    entry.step = text_of(*json, "step");
    const Json* at = json->find("at");
    entry.at = at != nullptr && at->as_integer() != nullptr ? *at->as_integer() : before;
  } else if (type == "done") {
    entry.step = "finalize";
    entry.message = "the template is ready";
  } else if (type == "error") {
    entry.level = "error";
    entry.step = "finalize";
  }
  return entry;
}

Json entry_json(const LogEntry& entry) {
  return Json::object({{"timestamp", rfc3339(entry.at)},
                       {"level", entry.level},
                       {"message", entry.message},
                       {"step", entry.step}});
}

Result<int> parse_level(std::string_view text) {
  const auto* const found = std::ranges::find(kLevels, text);
  if (found == kLevels.end()) {
    return fail(Code::kInvalidArgument, "level must be debug, info, warn or error");
  }
  return static_cast<int>(found - kLevels.begin());
}

bool is_at_least(const LogEntry& entry, int level) {
  return parse_level(entry.level).value_or(1) >= level;
}

}  // namespace atl::service::e2b
