#include "service/native/sandbox_json.h"

#include "base/strings.h"
#include "control/limits.h"
#include "control/service_document.h"
#include "control/services.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::Sandbox;
using control::SandboxStatus;

constexpr std::int64_t kMaxListLimit = 200;

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

Json name_json(const Sandbox& sandbox) {
  return sandbox.name.empty() ? Json{nullptr} : Json{sandbox.name};
}

// The contract's word for what runs now: another one after every start.
std::string runtime_id(const Sandbox& sandbox) {
  return sandbox.status == SandboxStatus::kPaused ? std::string{}
                                                  : concat(sandbox.id, "-", sandbox.generation);
}

Json mount_states_json(const Sandbox& sandbox) {
  Json list = Json::array();
  for (const control::Mount& mount : sandbox.mounts) {
    list.push(Json::object({{"sandboxvolume_id", mount.volume_id},
                            {"mount_point", mount.path},
                            {"read_only", mount.read_only},
                            {"state", "mounted"},
                            {"mounted_at", rfc3339(sandbox.claimed_at)}}));
  }
  return list;
}

Json mounts_json(const Sandbox& sandbox) {
  Json list = Json::array();
  for (const control::Mount& mount : sandbox.mounts) {
    list.push(Json::object({{"sandboxvolume_id", mount.volume_id},
                            {"mount_point", mount.path},
                            {"read_only", mount.read_only}}));
  }
  return list;
}

Result<std::vector<control::Mount>> parse_mounts(const Fields& fields) {
  std::vector<control::Mount> mounts;
  TRY(const auto objects,
      fields.objects("mounts", {"sandboxvolume_id", "mount_point", "read_only"}));
  for (const Fields& object : objects) {
    control::Mount mount;
    TRY(mount.volume_id, object.required_string("sandboxvolume_id"));
    TRY(mount.path, object.required_string("mount_point"));
    TRY(const auto read_only, object.boolean("read_only"));
    mount.read_only = read_only.value_or(false);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Json claimed_json(const Sandbox& sandbox) {
  return Json::object({{"sandbox_id", sandbox.id},
                       {"name", name_json(sandbox)},
                       {"status", control::status_name(sandbox.status)},
                       {"pod_name", sandbox.id},
                       {"runtime_id", runtime_id(sandbox)},
                       {"template", sandbox.template_name},
                       {"cluster_id", "default"},
                       {"bootstrap_mounts", mount_states_json(sandbox)}});
}

Result<control::ResourceRequest> parse_resources(const Fields& config) {
  control::ResourceRequest request;
  TRY(const auto resources, config.object("resources", {"memory", "cpu", "disk"}));
  TRY(request.memory, resources.string("memory"));
  TRY(request.cpu, resources.string("cpu"));
  TRY(request.disk, resources.string("disk"));
  return request;
}

Result<> parse_config(const Fields& fields, control::ClaimRequest& request) {
  TRY(const auto config, fields.object("config", {"env_vars", "resources", "ttl", "hard_ttl",
                                                  "idle_ttl", "auto_resume", "ephemeral_tmp",
                                                  "metadata", "network", "webhook", "services"}));
  TRY_DO(config.refuse_missing_features({"webhook"}));
  TRY(const auto services, control::parse_services(config));
  if (!services.empty()) {
    request.documents.push_back(control::Services::document(services));
  }
  TRY(request.env, config.string_map("env_vars"));
  TRY(request.labels, config.string_map("metadata"));
  TRY(const auto ttl, config.integer("ttl", 0, control::kMaxTtlSeconds));
  TRY(const auto hard_ttl, config.integer("hard_ttl", 0, control::kMaxTtlSeconds));
  TRY(const auto idle_ttl, config.integer("idle_ttl", 0, control::kMaxTtlSeconds));
  TRY(const auto auto_resume, config.boolean("auto_resume"));
  request.ttl_seconds = ttl.value_or(0);
  request.hard_ttl_seconds = hard_ttl.value_or(0);
  request.idle_ttl_seconds = idle_ttl.value_or(0);
  request.auto_resume = auto_resume.value_or(true);
  TRY(request.ephemeral_tmp, config.boolean("ephemeral_tmp"));
  TRY(request.resources, parse_resources(config));
  return {};
}

Result<> parse_label(std::string_view value, control::ListRequest& request) {
  const auto equals = value.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(Code::kInvalidArgument, concat("query parameter \"label\" is \"",
                                               to_valid_utf8(value), "\", it must be key=value"));
  }
  request.labels.emplace_back(value.substr(0, equals), value.substr(equals + 1));
  return {};
}

Result<> parse_status_filter(std::string_view value, control::ListRequest& request) {
  request.status = control::parse_status(value);
  if (!request.status) {
    return fail(Code::kInvalidArgument,
                "query parameter \"status\" must be one of starting, running, paused, "
                "terminating, failed");
  }
  return {};
}

Result<> parse_page(std::string_view query, control::ListRequest& request) {
  TRY(const auto limit, query_integer(query, "limit", 1, kMaxListLimit));
  TRY(const auto offset, query_integer(query, "offset", 0, INT32_MAX));
  request.limit = static_cast<std::size_t>(limit.value_or(50));
  request.offset = static_cast<std::size_t>(offset.value_or(0));
  if (http::query_value(query, "paused")) {
    TRY(request.paused, query_boolean(query, "paused"));
  }
  if (const auto cursor = http::query_value(query, "cursor")) {
    request.after = control::parse_cursor(*cursor);
    if (!request.after || request.offset != 0) {
      return fail(Code::kInvalidArgument,
                  "query parameter \"cursor\" must be the next_cursor of an earlier answer, and "
                  "stands instead of \"offset\"");
    }
  }
  return {};
}

}  // namespace

Json sandbox_json(const Sandbox& sandbox, std::optional<UnixMillis> idle_expires_at,
                  Json services) {
  Json json = Json::object({{"id", sandbox.id},
                            {"name", name_json(sandbox)},
                            {"template_id", sandbox.template_name},
                            {"team_id", sandbox.team_id},
                            {"user_id", ""},
                            {"cluster_id", "default"},
                            {"status", control::status_name(sandbox.status)},
                            {"paused", sandbox.status == SandboxStatus::kPaused},
                            {"auto_resume", sandbox.auto_resume},
                            {"ephemeral_tmp", sandbox.ephemeral_tmp},
                            {"services", std::move(services)},
                            {"resources", resources_json(sandbox)},
                            {"pod_name", sandbox.id},
                            {"runtime_id", runtime_id(sandbox)},
                            {"runtime_generation", sandbox.generation},
                            {"metadata", string_map_json(sandbox.labels)},
                            {"ttl", sandbox.ttl_seconds},
                            {"hard_ttl", sandbox.hard_ttl_seconds},
                            {"idle_ttl", sandbox.idle_ttl_seconds},
                            {"parent_id", sandbox.parent_id},
                            {"mounts", mounts_json(sandbox)},
                            {"expires_at", rfc3339_or_null(sandbox.expires_at)},
                            {"hard_expires_at", rfc3339_or_null(sandbox.hard_expires_at)},
                            {"idle_expires_at", rfc3339_or_null(idle_expires_at)},
                            {"claimed_at", rfc3339(sandbox.claimed_at)},
                            {"created_at", rfc3339(sandbox.created_at)},
                            {"updated_at", rfc3339(sandbox.updated_at)}});
  if (!sandbox.failure.empty()) {
    json.set("failure", sandbox.failure);
  }
  return json;
}

Json sandbox_status_json(const Sandbox& sandbox) {
  return Json::object({{"sandbox_id", sandbox.id},
                       {"template_id", sandbox.template_name},
                       {"team_id", sandbox.team_id},
                       {"user_id", ""},
                       {"pod_name", sandbox.id},
                       {"runtime_id", runtime_id(sandbox)},
                       {"status", control::status_name(sandbox.status)},
                       {"claimed_at", rfc3339(sandbox.claimed_at)},
                       {"expires_at", rfc3339_or_null(sandbox.expires_at)},
                       {"hard_expires_at", rfc3339_or_null(sandbox.hard_expires_at)},
                       {"created_at", rfc3339(sandbox.created_at)}});
}

Result<control::NetworkRequestPtr> parse_config_network(const Json& body) {
  const Json* const config = body.find("config");
  const Json* const network = config == nullptr ? nullptr : config->find("network");
  if (network == nullptr) {
    return nullptr;
  }
  TRY(auto request,
      control::read_network(*network, "config.network", control::NetworkPlace::kRequest));
  return std::make_shared<const control::NetworkRequest>(std::move(request));
}

Result<ParsedClaim> parse_claim(const Json& body) {
  ParsedClaim claim;
  control::ClaimRequest& request = claim.request;
  TRY(const auto fields, Fields::of(body, "",
                                    {"template", "name", "get_or_create", "count", "partial",
                                     "config", "snapshot_id", "mounts"}));
  TRY(request.mounts, parse_mounts(fields));
  TRY(const auto snapshot_id, fields.string("snapshot_id"));
  claim.snapshot_id = snapshot_id.value_or("");
  if (claim.snapshot_id.empty() || fields.has("template")) {
    TRY(request.template_name, fields.required_string("template"));
  }
  if (fields.has("name")) {
    TRY(request.name, fields.required_string("name"));
  }
  TRY(const auto get_or_create, fields.boolean("get_or_create"));
  TRY(const auto count, fields.integer("count", 1, control::kMaxClaimCount));
  TRY(const auto partial, fields.boolean("partial"));
  request.get_or_create = get_or_create.value_or(false);
  request.count = static_cast<std::size_t>(count.value_or(1));
  request.partial = partial.value_or(false);
  claim.many = count.has_value();
  TRY_DO(parse_config(fields, request));
  TRY(request.network, parse_config_network(body));
  return claim;
}

Json claim_json(const control::ClaimAnswer& answer, bool many) {
  if (!many) {
    return claimed_json(answer.sandboxes.front());
  }
  Json sandboxes = Json::array();
  for (const auto& sandbox : answer.sandboxes) {
    sandboxes.push(claimed_json(sandbox));
  }
  Json failures = Json::array();
  for (const auto& error : answer.failures) {
    const ApiFailure failure = classify(error);
    // What went wrong on our side is not for everybody: error_response says why.
    failures.push(Json::object(
        {{"code", failure.code},
         {"message", failure.status == 500 ? "the sandbox could not be started" : error.message}}));
  }
  return Json::object({{"sandboxes", std::move(sandboxes)},
                       {"count", answer.sandboxes.size()},
                       {"failures", std::move(failures)}});
}

Result<control::SandboxUpdate> parse_update(const Json& body) {
  control::SandboxUpdate update;
  TRY(const auto fields, Fields::of(body, "", {"config"}));
  TRY(const auto config,
      fields.object("config", {"env_vars", "resources", "ttl", "hard_ttl", "idle_ttl",
                               "auto_resume", "metadata", "network", "services"}));
  TRY(update.network, parse_config_network(body));
  if (config.has("env_vars")) {
    TRY(update.env, config.string_map("env_vars"));
  }
  if (config.has("metadata")) {
    TRY(update.labels, config.string_map("metadata"));
  }
  TRY(update.resources, parse_resources(config));
  TRY(update.ttl_seconds, config.integer("ttl", 0, control::kMaxTtlSeconds));
  TRY(update.hard_ttl_seconds, config.integer("hard_ttl", 0, control::kMaxTtlSeconds));
  TRY(update.idle_ttl_seconds, config.integer("idle_ttl", 0, control::kMaxTtlSeconds));
  TRY(update.auto_resume, config.boolean("auto_resume"));
  return update;
}

Result<std::optional<std::vector<control::Service>>> parse_service_update(const Json& body) {
  const Json* config = body.find("config");
  if (config == nullptr || config->find("services") == nullptr) {
    return std::nullopt;
  }
  const Json only = Json::object({{"services", *config->find("services")}});
  TRY(const auto fields, Fields::of(only, "config", {"services"}));
  return control::parse_services(fields);
}

Result<control::ListRequest> parse_list(std::string_view query, std::string_view team_id,
                                        const control::Templates& templates) {
  constexpr std::string_view kMetadata = "metadata.";
  control::ListRequest request;
  request.team_id = team_id;
  TRY(const auto pairs, query_pairs(query));
  for (const auto& [name, value] : pairs) {
    if (name == "status" || name == "state") {
      TRY_DO(parse_status_filter(value, request));
    } else if (name == "template_id" || name == "template") {
      const auto found = templates.find(value, team_id);
      request.template_name = found ? found->name : value;
    } else if (name == "name") {
      request.name = value;
    } else if (name == "name_prefix") {
      request.name_prefix = value;
    } else if (name == "label") {
      TRY_DO(parse_label(value, request));
    } else if (name.starts_with(kMetadata)) {
      request.labels.emplace_back(name.substr(kMetadata.size()), value);
    } else if (name != "paused" && name != "limit" && name != "offset" && name != "cursor") {
      return fail(Code::kInvalidArgument,
                  concat("unknown query parameter \"", to_valid_utf8(name),
                         "\"; allowed here: status, template_id, paused, name, name_prefix, label, "
                         "metadata.<key>, limit, offset, cursor"));
    }
  }
  TRY_DO(parse_page(query, request));
  return request;
}

}  // namespace atl::service::native
