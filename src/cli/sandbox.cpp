#include "cli/sandbox.h"

#include "base/strings.h"
#include "cli/interrupts.h"
#include "cli/progress.h"

namespace atl::cli {

Json create_body(const SandboxOptions& options) {
  Json config = Json::object();
  if (!options.env.empty()) {
    Json variables = Json::object();
    for (const auto& [name, value] : options.env) {
      variables.set(name, value);
    }
    config.set("env_vars", std::move(variables));
  }
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
  Json body = Json::object();
  body.set("template", options.template_name);
  if (!config.as_object()->empty()) {
    body.set("config", std::move(config));
  }
  return body;
}

Task<CreatedSandbox> create_sandbox(CommandContext& context, Api& api,
                                    const SandboxOptions& options) {
  auto answer = co_await with_progress(
      context.console, context.options.quiet,
      [&options] { return concat("creating a sandbox from ", printable(options.template_name)); },
      api.call("POST", "/api/v1/sandboxes", create_body(options), kCreateDeadline));
  if (!answer) {
    co_return fail(std::move(answer).error().note("creating a sandbox"));
  }
  CreatedSandbox created{.id = text_member(*answer, "sandbox_id"),
                         .template_name = text_member(*answer, "template"),
                         .status = text_member(*answer, "status")};
  if (created.id.empty()) {
    co_return fail(Code::kInternal, "the server created a sandbox but did not say its id");
  }
  co_return created;
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

Task<std::vector<Json>> list_sandboxes(Api& api) {
  std::vector<Json> all;
  for (;;) {
    CO_TRY(auto page, co_await api.call("GET", concat("/api/v1/sandboxes?limit=", kListPageSize,
                                                      "&offset=", all.size())));
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
