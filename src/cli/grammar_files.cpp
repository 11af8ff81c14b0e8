// cp, files, watch: what is in a sandbox.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"
#include "cli/parse.h"

namespace atl::cli {
namespace {

void add_copy(CLI::App& app, Raw& raw) {
  app.add_option("SOURCE", raw.copy.source, "FILE, DIR, SANDBOX:/path or - (standard input)")
      ->required();
  app.add_option("DESTINATION", raw.copy.destination,
                 "FILE, DIR, SANDBOX:/path or - (standard output)")
      ->required();
  app.add_option("-u,--user", raw.copy.user, "Act as this user in the sandbox [user]")
      ->type_name("USER");
}

Result<Command> finish_copy(Raw& raw) {
  return raw.copy;
}

void add_files(CLI::App& app, Raw& raw) {
  auto& files = raw.files;
  add_choice(app, raw, "ACTION", raw.what, {"ls", "cat", "glob", "grep", "mkdir", "rm"},
             "ls, cat, glob, grep, mkdir or rm")
      ->required();
  app.add_option("PLACE", raw.ids, "SANDBOX:/path; glob, grep: a pattern first")->required();
  app.add_flag("-r,--recursive", files.recursive, "rm: also directories that are not empty");
  app.add_flag("-i,--ignore-case", files.ignore_case, "glob, grep: capitals do not matter");
  app.add_flag("-F,--fixed", files.fixed, "grep: the pattern is a text, not an expression");
  app.add_option("-C,--context", files.context_lines, "grep: so many lines around each")
      ->type_name("N");
  app.add_option("--include", files.included, "grep: only files of such names (repeatable)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--exclude", files.excluded, "glob, grep: not what has such names (repeatable)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("-u,--user", files.user, "Act as this user in the sandbox [user]")
      ->type_name("USER");
}

Result<Command> finish_files(Raw& raw) {
  using Action = FilesOptions::Action;
  auto& files = raw.files;
  for (const auto& [name, action] : {std::pair{"ls", Action::kList},
                                     {"cat", Action::kRead},
                                     {"mkdir", Action::kMakeDirectory},
                                     {"rm", Action::kRemove},
                                     {"glob", Action::kGlob},
                                     {"grep", Action::kGrep}}) {
    if (raw.what == name) {
      files.action = action;
    }
  }
  const bool search = files.action == Action::kGlob || files.action == Action::kGrep;
  if (search) {
    files.pattern = raw.ids.front();
    raw.ids.erase(raw.ids.begin());
    if (raw.ids.empty()) {
      return usage_error(concat("write: atoll files ", raw.what, " PATTERN SANDBOX:/path"));
    }
  }
  for (const auto& text : raw.ids) {
    auto place = parse_place(text);
    if (place.kind != CopyPlace::Kind::kSandbox) {
      return usage_error(concat("\"", text, "\" is not in a sandbox; for example: atoll files ",
                                raw.what, search ? " PATTERN" : "", " SANDBOX:/workspace"));
    }
    files.places.push_back({std::move(place.sandbox_id), std::move(place.path)});
  }
  return files;
}

void add_watch(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.watch.id, "The sandbox")->required();
  app.add_option("PATH", raw.watch.path, "A directory there")->required();
  app.add_flag("-r,--recursive", raw.watch.recursive, "Also everything below it");
}

Result<Command> finish_watch(Raw& raw) {
  return raw.watch;
}

constexpr std::array<CommandGrammar, 3> kFileGrammar{{
    {.name = "cp", .add_options = add_copy, .finish = finish_copy},
    {.name = "files", .add_options = add_files, .finish = finish_files},
    {.name = "watch", .add_options = add_watch, .finish = finish_watch},
}};

}  // namespace

std::span<const CommandGrammar> file_grammar() {
  return kFileGrammar;
}

}  // namespace atl::cli
