// pause, resume, snapshot, fork, diff, export, import, tree: sandboxes whose state is kept, gone
// back to and multiplied.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

constexpr std::uint32_t kMaxForks = 100;

void add_pause(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.ids, "The sandboxes")->required();
  add_choice(app, raw, "--memory", raw.kept, {"keep", "disk", "none"},
             "What becomes of the processes: keep (frozen), disk, none (they end) [keep]")
      ->type_name("WHAT");
}

Result<Command> finish_pause(Raw& raw) {
  return PauseOptions{.ids = raw.ids, .memory = raw.kept};
}

void add_resume(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.ids, "The sandboxes")->required();
}

Result<Command> finish_resume(Raw& raw) {
  return ResumeOptions{.ids = raw.ids};
}

void add_snapshot(CLI::App& app, Raw& raw) {
  auto& options = raw.snapshot;
  add_choice(app, raw, "ACTION", raw.what, {"create", "ls", "show", "restore", "rm"},
             "create, ls, show, restore or rm")
      ->required();
  app.add_option("SANDBOX", options.names,
                 "create, ls: SANDBOX; restore: SANDBOX SNAPSHOT; show, rm: SNAPSHOT")
      ->required();
  app.add_option("-n,--name", options.name, "create: what to call it")->type_name("NAME");
  app.add_option("--description", options.description, "create: what it is about")
      ->type_name("TEXT");
  app.add_option("--expires", raw.ttl, "create: delete it after this time")->type_name("SECS");
  app.add_flag("-f,--force", options.force,
               "restore: also a sandbox that runs; rm: an id that does not exist is fine");
}

Result<Command> finish_snapshot(Raw& raw) {
  using Action = SnapshotOptions::Action;
  auto& options = raw.snapshot;
  const std::size_t count = options.names.size();
  if (!raw.ttl.empty()) {
    TRY(options.expires_seconds, parse_seconds(raw.ttl));
  }
  if (raw.what == "rm") {
    options.action = Action::kRemove;
    return options;
  }
  if (raw.what == "restore") {
    options.action = Action::kRestore;
    if (count != 2) {
      return usage_error("write: atoll snapshot restore SANDBOX SNAPSHOT");
    }
    return options;
  }
  options.action = raw.what == "create" ? Action::kCreate
                   : raw.what == "ls"   ? Action::kList
                                        : Action::kShow;
  if (count != 1) {
    return usage_error(
        concat("write: atoll snapshot ", raw.what, raw.what == "show" ? " SNAPSHOT" : " SANDBOX"));
  }
  return options;
}

void add_fork(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.id, "The sandbox to begin from")->required();
  app.add_option("-n,--count", raw.count, "So many children [1]")->type_name("N");
  add_choice(app, raw, "--memory", raw.kept, {"none", "interpreters", "processes"},
             "What comes along besides the files: none, the state of interpreters, or all "
             "processes [none]")
      ->type_name("WHAT");
  app.add_flag("--start", raw.start,
               "They run at once; without it they wake up when they are used");
  app.add_option("--ttl", raw.ttl, "Pause each child after this time")->type_name("SECS");
  app.add_option("--hard-ttl", raw.hard_ttl, "Delete each child after this time")
      ->type_name("SECS");
}

Result<Command> finish_fork(Raw& raw) {
  if (raw.count > kMaxForks) {
    return usage_error(concat("-n ", raw.count, ": at most ", kMaxForks, " at once"));
  }
  ForkOptions options{.id = raw.id,
                      .count = raw.count == 0 ? 1 : raw.count,
                      .memory = raw.kept,
                      .start = raw.start,
                      .ttl_seconds = {},
                      .hard_ttl_seconds = {}};
  if (!raw.ttl.empty()) {
    TRY(options.ttl_seconds, parse_seconds(raw.ttl));
  }
  if (!raw.hard_ttl.empty()) {
    TRY(options.hard_ttl_seconds, parse_seconds(raw.hard_ttl));
  }
  return options;
}

void add_tree(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.id, "A sandbox or a snapshot; without one all trees");
}

Result<Command> finish_tree(Raw& raw) {
  return TreeOptions{.id = raw.id};
}

void add_diff(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.diff.id, "The sandbox or snapshot")->required();
  app.add_option("--from", raw.diff.from, "Compare with this sandbox or snapshot [the template]")
      ->type_name("SANDBOX");
  app.add_option("--tar", raw.diff.tar, "Write what was added and changed as a tar; - is output")
      ->type_name("FILE");
}

Result<Command> finish_diff(Raw& raw) {
  return raw.diff;
}

void add_export(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.exported.id, "The sandbox or snapshot")->required();
  app.add_option("FILE", raw.exported.file, "Where to; - is standard output")->required();
  app.add_flag("--layer", raw.exported.layer_only, "Only the layer with what the sandbox changed");
  add_choice(app, raw, "--compression", raw.exported.compression, {"gzip", "zstd", "none"},
             "Of the layers: gzip, zstd or none [gzip]")
      ->type_name("HOW");
}

Result<Command> finish_export(Raw& raw) {
  return raw.exported;
}

void add_import(CLI::App& app, Raw& raw) {
  app.add_option("FILE", raw.imported.file, "The archive; - is standard input")->required();
  app.add_option("-t,--template", raw.imported.template_name,
                 "Whose user, directory and variables count [default]")
      ->type_name("TEMPLATE");
  app.add_option("-n,--name", raw.imported.name, "What to call the snapshot")->type_name("NAME");
  app.add_option("--description", raw.imported.description, "What it is about")->type_name("TEXT");
}

Result<Command> finish_import(Raw& raw) {
  return raw.imported;
}

constexpr std::array<CommandGrammar, 8> kStateGrammar{{
    {.name = "pause", .add_options = add_pause, .finish = finish_pause},
    {.name = "resume", .add_options = add_resume, .finish = finish_resume},
    {.name = "snapshot", .add_options = add_snapshot, .finish = finish_snapshot},
    {.name = "fork", .add_options = add_fork, .finish = finish_fork},
    {.name = "diff", .add_options = add_diff, .finish = finish_diff},
    {.name = "export", .add_options = add_export, .finish = finish_export},
    {.name = "import", .add_options = add_import, .finish = finish_import},
    {.name = "tree", .add_options = add_tree, .finish = finish_tree},
}};

}  // namespace

std::span<const CommandGrammar> state_grammar() {
  return kStateGrammar;
}

}  // namespace atl::cli
