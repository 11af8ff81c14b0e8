// create, ls, update, stats, inspect, rm: the sandboxes themselves.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

void add_label_option(CLI::App& app, Raw& raw, std::string description) {
  app.add_option("-l,--label", raw.labels, std::move(description))
      ->type_name("K=V")
      ->allow_extra_args(false);
}

Result<EnvVars> finish_labels(const Raw& raw) {
  EnvVars labels;
  for (const auto& text : raw.labels) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return usage_error(concat("--label wants KEY=VALUE, not \"", text, "\""));
    }
    labels.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return labels;
}

void add_create(CLI::App& app, Raw& raw) {
  add_sandbox_options(app, raw);
  add_env_option(app, raw);
  app.add_option("-n,--name", raw.sandbox.name, "A name that works wherever the id does")
      ->type_name("NAME");
  app.add_flag("--get", raw.sandbox.get_or_create, "A sandbox of that name is fine: use it");
  add_label_option(app, raw, "A label (repeatable)");
  app.add_option("-c,--count", raw.count, "Create several, all or none")->type_name("N");
}

Result<Command> finish_create(Raw& raw) {
  TRY(raw.sandbox.env, finish_env(raw));
  TRY(raw.sandbox.labels, finish_labels(raw));
  TRY(auto sandbox, finish_sandbox(raw));
  if (sandbox.get_or_create && sandbox.name.empty()) {
    return usage_error("--get wants a --name");
  }
  if (raw.count > 1 && !sandbox.name.empty()) {
    return usage_error("a name can only be given to one sandbox, not to --count of them");
  }
  return CreateOptions{.sandbox = std::move(sandbox), .count = raw.count};
}

void add_list(CLI::App& app, Raw& raw) {
  app.add_flag("-a,--all", raw.all, "Also sandboxes that failed or are being deleted");
  add_label_option(app, raw, "Only those with this label (repeatable: with all of them)");
}

Result<Command> finish_list(Raw& raw) {
  TRY(auto labels, finish_labels(raw));
  return ListOptions{.all = raw.all, .labels = std::move(labels)};
}

void add_update(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.id, "The sandbox")->required();
  add_limit_options(app, raw);
  add_env_option(app, raw);
  add_label_option(app, raw, "A label (repeatable); the labels given replace all others");
}

Result<Command> finish_update(Raw& raw) {
  TRY(raw.sandbox.env, finish_env(raw));
  TRY(raw.sandbox.labels, finish_labels(raw));
  TRY(auto sandbox, finish_sandbox(raw));
  const bool nothing = sandbox.memory.empty() && sandbox.cpu.empty() && sandbox.env.empty() &&
                       sandbox.labels.empty() && !sandbox.ttl_seconds &&
                       !sandbox.hard_ttl_seconds && !sandbox.idle_ttl_seconds;
  if (nothing) {
    return usage_error("what shall change? For example: atoll update SANDBOX --memory 2Gi");
  }
  return UpdateOptions{.id = raw.id, .sandbox = std::move(sandbox)};
}

void add_stats(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.id, "The sandbox; without one all that run");
  app.add_flag("-w,--watch", raw.follow, "Again and again");
}

Result<Command> finish_stats(Raw& raw) {
  return StatsOptions{.id = raw.id, .watch = raw.follow};
}

void add_inspect(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.id, "The sandbox")->required();
}

Result<Command> finish_inspect(Raw& raw) {
  return InspectOptions{.id = raw.id};
}

void add_remove(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.ids, "The sandboxes");
  app.add_flag("--all", raw.all, "Every sandbox this key can see");
  app.add_flag("-f,--force", raw.force, "An id that does not exist is fine");
}

Result<Command> finish_remove(Raw& raw) {
  if (raw.all != raw.ids.empty()) {
    return usage_error(raw.all ? "rm wants ids or --all, not both" : "rm wants ids, or --all");
  }
  return RemoveOptions{.ids = raw.ids, .all = raw.all, .force = raw.force};
}

constexpr std::array<CommandGrammar, 6> kSandboxGrammar{{
    {.name = "create", .add_options = add_create, .finish = finish_create},
    {.name = "ls", .add_options = add_list, .finish = finish_list},
    {.name = "update", .add_options = add_update, .finish = finish_update},
    {.name = "stats", .add_options = add_stats, .finish = finish_stats},
    {.name = "inspect", .add_options = add_inspect, .finish = finish_inspect},
    {.name = "rm", .add_options = add_remove, .finish = finish_remove},
}};

}  // namespace

std::span<const CommandGrammar> sandbox_grammar() {
  return kSandboxGrammar;
}

}  // namespace atl::cli
