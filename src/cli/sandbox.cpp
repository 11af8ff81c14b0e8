#include "cli/sandbox.h"

#include "base/strings.h"
#include "cli/interrupts.h"
#include "cli/progress.h"

namespace atl::cli {

namespace {

constexpr std::string_view kIdPrefix = "rs-";
constexpr std::string_view kSnapshotPrefix = "snap-";

void set_map(Json& config, std::string_view key, const EnvVars& pairs) {
  if (!pairs.empty()) {
    Json object = Json::object();
    for (const auto& [name, value] : pairs) {
      object.set(name, value);
    }
    config.set(key, std::move(object));
  }
}

}  // namespace

Json sandbox_config(const SandboxOptions& options) {
  Json config = Json::object();
  set_map(config, "env_vars", options.env);
  set_map(config, "metadata", options.labels);
  Json resources = Json::object();
  if (!options.memory.empty()) {
    resources.set("memory", options.memory);
  }
  if (!options.cpu.empty()) {
    resources.set("cpu", options.cpu);
  }
  if (!resources.as_object()->empty()) {
    config.set("resources", std::move(resources));
  }
  if (options.ttl_seconds) {
    config.set("ttl", *options.ttl_seconds);
  }
  if (options.hard_ttl_seconds) {
    config.set("hard_ttl", *options.hard_ttl_seconds);
  }
  if (options.idle_ttl_seconds) {
    config.set("idle_ttl", *options.idle_ttl_seconds);
  }
  return config;
}

Json create_body(const SandboxOptions& options) {
  Json config = sandbox_config(options);
  Json body = Json::object();
  if (options.snapshot_id.empty()) {
    body.set("template", options.template_name);
  } else {
    body.set("snapshot_id", options.snapshot_id);
  }
  if (!options.name.empty()) {
    body.set("name", options.name);
  }
  if (options.get_or_create) {
    body.set("get_or_create", true);
  }
  if (!options.mounts.empty()) {
    Json mounts = Json::array();
    for (const auto& mount : options.mounts) {
      Json json =
          Json::object({{"sandboxvolume_id", mount.volume_id}, {"mount_point", mount.path}});
      if (mount.read_only) {
        json.set("read_only", true);
      }
      mounts.push(std::move(json));
    }
    body.set("mounts", std::move(mounts));
  }
  if (!config.as_object()->empty()) {
    body.set("config", std::move(config));
  }
  return body;
}

Task<CreatedSandbox> create_sandbox(CommandContext& context, Api& api,
                                    const SandboxOptions& options) {
  auto answer = co_await with_progress(
      context.console, context.options.quiet,
      [&options] {
        const bool snapshot = !options.snapshot_id.empty();
        return concat("creating a sandbox from ",
                      printable(snapshot ? options.snapshot_id : options.template_name));
      },
      api.call("POST", "/api/v1/sandboxes", create_body(options), kCreateDeadline));
  if (!answer) {
    co_return fail(std::move(answer).error().note("creating a sandbox"));
  }
  CreatedSandbox created{.id = text_member(*answer, "sandbox_id"),
                         .name = text_member(*answer, "name"),
                         .template_name = text_member(*answer, "template"),
                         .status = text_member(*answer, "status")};
  if (created.id.empty()) {
    co_return fail(Code::kInternal, "the server created a sandbox but did not say its id");
  }
  co_return created;
}

Task<std::string> resolve_sandbox(Api& api, std::string word) {
  if (word.empty() || word.starts_with(kIdPrefix)) {
    co_return word;
  }
  auto answer = co_await api.call(
      "GET", concat("/api/v1/sandboxes?limit=1&name=", http::percent_encode(word)));
  if (!answer && answer.error().code != Code::kInvalidArgument) {  // no word that can be a name
    co_return fail(std::move(answer).error());
  }
  const Json* sandboxes = answer ? answer->find("sandboxes") : nullptr;
  if (sandboxes != nullptr && sandboxes->as_array() != nullptr) {
    for (const auto& sandbox : *sandboxes->as_array()) {
      if (text_member(sandbox, "name") == word) {
        co_return text_member(sandbox, "id");
      }
    }
  }
  co_return word;
}

Task<std::string> resolve_state_path(Api& api, std::string word) {
  if (word.starts_with(kSnapshotPrefix)) {
    co_return concat("/api/v1/sandbox-rootfs-snapshots/", http::percent_encode(word));
  }
  CO_TRY(const auto id, co_await resolve_sandbox(api, std::move(word)));
  co_return sandbox_path(id);
}

Task<> delete_sandbox(Api& api, const std::string& id) {
  CO_TRY_DO(co_await api.call("DELETE", sandbox_path(id)));
  co_return ok();
}

Task<> remove_sandbox(CommandContext& context, Interrupts& interrupts, std::string id) {
  Api api{context.reactor, context.endpoint};
  auto removed =
      co_await with_deadline(kCleanupDeadline, delete_sandbox(api, id)).under(interrupts.cleanup());
  // Somebody else may have deleted it, or its time was up: gone is gone.
  if (!removed && removed.error().code != Code::kNotFound) {
    context.console.report(concat("sandbox ", id, " was not deleted: ", removed.error().message),
                           concat("try again with: atoll rm ", id));
  }
  co_return ok();
}

Task<std::optional<CreatedSandbox>> create_for_session(CommandContext& context,
                                                       const SandboxOptions& options) {
  Interrupts interrupts{co_await current_context(), context, 1};
  Api api{context.reactor, context.endpoint};
  auto created = co_await create_sandbox(context, api, options).under(interrupts.work());
  if (created && interrupts.count() > 0) {
    (void)co_await remove_sandbox(context, interrupts, created->id);
  }
  (void)co_await interrupts.finish();
  if (interrupts.count() > 0) {
    co_return std::nullopt;
  }
  if (!created) {
    co_return fail(std::move(created).error());
  }
  co_return std::optional{*std::move(created)};
}

Task<std::vector<CreatedSandbox>> create_sandboxes(CommandContext& context, Api& api,
                                                   const SandboxOptions& options,
                                                   std::uint32_t count) {
  Json body = create_body(options);
  body.set("count", count);
  CO_TRY(const auto answer,
         co_await with_progress(
             context.console, context.options.quiet,
             [count] { return concat("creating ", count, " sandboxes"); },
             api.call("POST", "/api/v1/sandboxes", std::move(body), kCreateDeadline)));
  std::vector<CreatedSandbox> created;
  const Json* sandboxes = answer.find("sandboxes");
  if (sandboxes == nullptr || sandboxes->as_array() == nullptr) {
    co_return fail(Code::kInternal, "the server created sandboxes but did not say their ids");
  }
  for (const auto& sandbox : *sandboxes->as_array()) {
    created.push_back({.id = text_member(sandbox, "sandbox_id"),
                       .name = text_member(sandbox, "name"),
                       .template_name = text_member(sandbox, "template"),
                       .status = text_member(sandbox, "status")});
  }
  co_return created;
}

Task<std::vector<Json>> list_sandboxes(Api& api, EnvVars labels) {
  std::string filter;
  for (const auto& [name, value] : labels) {
    filter += concat("&label=", http::percent_encode(concat(name, "=", value)));
  }
  std::vector<Json> all;
  for (;;) {
    CO_TRY(auto page, co_await api.call("GET", concat("/api/v1/sandboxes?limit=", kListPageSize,
                                                      "&offset=", all.size(), filter)));
    const Json* entries = page.find("sandboxes");
    const auto* array = entries == nullptr ? nullptr : entries->as_array();
    if (array == nullptr || array->empty()) {
      co_return all;
    }
    all.insert(all.end(), array->begin(), array->end());
    const Json* more = page.find("has_more");
    if (more == nullptr || more->as_bool() == nullptr || !*more->as_bool()) {
      co_return all;
    }
    if (all.size() >= kMaxListedSandboxes) {
      co_return fail(Code::kResourceExhausted,
                     concat("there are more than ", kMaxListedSandboxes, " sandboxes"));
    }
  }
}

}  // namespace atl::cli
