// create, ls, inspect, rm: the sandboxes themselves.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

void add_create(CLI::App& app, Raw& raw) {
  add_sandbox_options(app, raw);
  add_env_option(app, raw);
}

Result<Command> finish_create(Raw& raw) {
  TRY(raw.sandbox.env, finish_env(raw));
  TRY(auto sandbox, finish_sandbox(raw));
  return CreateOptions{.sandbox = std::move(sandbox)};
}

void add_list(CLI::App& app, Raw& raw) {
  app.add_flag("-a,--all", raw.all, "Also sandboxes that failed or are being deleted");
}

Result<Command> finish_list(Raw& raw) {
  return ListOptions{.all = raw.all};
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

constexpr std::array<CommandGrammar, 4> kSandboxGrammar{{
    {.name = "create", .add_options = add_create, .finish = finish_create},
    {.name = "ls", .add_options = add_list, .finish = finish_list},
    {.name = "inspect", .add_options = add_inspect, .finish = finish_inspect},
    {.name = "rm", .add_options = add_remove, .finish = finish_remove},
}};

}  // namespace

std::span<const CommandGrammar> sandbox_grammar() {
  return kSandboxGrammar;
}

}  // namespace atl::cli
