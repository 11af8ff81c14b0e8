#include "service/e2b/sandboxes/sandbox_view.h"

#include <algorithm>

#include "base/strings.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

// Appended to ids by old clients, with a hyphen between.
constexpr std::string_view kClientId = "atoll";
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

void set_names(const SandboxParts& parts, const control::Sandbox& sandbox, Json& json) {
  const TemplateName name = parts.templates.describe(sandbox.template_name);
  json.set("sandboxID", sandbox.id);
  json.set("templateID", name.id);
  json.set("clientID", kClientId);
  json.set("envdVersion", kEnvdVersion);
  if (!name.alias.empty()) {
    json.set("alias", name.alias);
  }
}

Json domain_json(const control::PublicNames& names) {
  return names.has_own_hosts() ? Json{concat(names.domain, names.port_suffix)} : Json{nullptr};
}

// A running one without an end: the end of the longest time that can be asked for would do as well
// as any other.
UnixMillis end_of(const control::Sandbox& sandbox) {
  if (!is_running(sandbox)) {
    return sandbox.updated_at;
  }
  constexpr UnixMillis kDayMs = UnixMillis{24} * 3600 * 1000;
  const UnixMillis never = sandbox.created_at + 365 * kDayMs;
  return std::min(sandbox.expires_at.value_or(never), sandbox.hard_expires_at.value_or(never));
}

Json mounts_json(const control::Terms& terms) {
  Json mounts = Json::array();
  for (const auto& mount : terms.mounts) {
    mounts.push(Json::object({{"name", mount.name}, {"path", mount.path}}));
  }
  return mounts;
}

}  // namespace

Json sandbox_json(const SandboxParts& parts, const control::Sandbox& sandbox) {
  const auto terms = parts.terms.of(sandbox);
  Json json = Json::object();
  set_names(parts, sandbox, json);
  json.set("domain", domain_json(parts.names));
  if (terms->secure) {
    json.set("envdAccessToken", parts.tokens.agent_token(sandbox.id));
  }
  json.set("trafficAccessToken",
           terms->public_traffic ? Json{nullptr} : Json{parts.tokens.traffic_token(sandbox.id)});
  return json;
}

Json listed_json(const SandboxParts& parts, const control::Sandbox& sandbox) {
  Json json = Json::object();
  set_names(parts, sandbox, json);
  json.set("startedAt", native::rfc3339(sandbox.created_at));
  json.set("endAt", native::rfc3339(end_of(sandbox)));
  json.set("cpuCount", std::max<std::uint64_t>(1, (sandbox.limits.cpu_millis + 999) / 1000));
  json.set("memoryMB", sandbox.limits.memory_bytes / kMiB);
  json.set("diskSizeMB", sandbox.limits.disk_bytes / kMiB);
  json.set("state", is_running(sandbox) ? "running" : "paused");
  Json metadata = Json::object();
  for (const auto& [key, value] : sandbox.labels) {
    metadata.set(key, value);
  }
  json.set("metadata", std::move(metadata));
  json.set("volumeMounts", mounts_json(*parts.terms.of(sandbox)));
  return json;
}

Json detail_json(const SandboxParts& parts, const control::Sandbox& sandbox,
                 const control::Principal& caller) {
  const auto terms = parts.terms.of(sandbox);
  Json json = listed_json(parts, sandbox);
  json.set("domain", domain_json(parts.names));
  if (terms->secure && caller.may(control::Permission::kSandboxWrite)) {
    json.set("envdAccessToken", parts.tokens.agent_token(sandbox.id));
  }
  json.set("allowInternetAccess", terms->internet ? Json{*terms->internet} : Json{nullptr});
  if (auto network = Json::parse(terms->network); network && network->as_object() != nullptr) {
    json.set("network", *std::move(network));
  }
  const bool kills = terms->ttl_end == control::TtlEnd::kDelete;
  json.set("lifecycle", Json::object({{"autoResume", terms->auto_resume},
                                      {"onTimeout", kills ? "kill" : "pause"}}));
  return json;
}

Result<control::Sandbox> find_own(const SandboxParts& parts, E2bExchange& exchange,
                                  const std::string& id) {
  const std::string& team_id = exchange.principal().team_id;
  auto found = parts.sandboxes.get(team_id, id);
  if (!found) {
    found = parts.sandboxes.get(team_id, id.substr(0, id.rfind('-')));
  }
  if (!found || found->status == control::SandboxStatus::kTerminating) {
    return fail(Code::kNotFound,
                concat("sandbox \"", to_valid_utf8(id), "\" not found: it doesn't exist or you ",
                       "don't have access to it"),
                "sandbox_not_found");
  }
  exchange.concerns(found->id);
  return *std::move(found);
}

}  // namespace atl::service::e2b
