// The instructions that change files: RUN, COPY and ADD, each in a sandbox of its own.
#include <algorithm>

#include "base/scope.h"
#include "base/strings.h"
#include "control/accounts.h"
#include "control/dockerfile_build.h"
#include "control/limits.h"

namespace atl::control {
namespace {

std::unexpected<Error> refuse(std::string what) {
  return fail(Code::kInvalidArgument, std::move(what), "dockerfile");
}

struct Command {
  std::vector<std::string> argv;
  std::string input;  // for its standard input; empty: none
};

// A heredoc alone is a script: for the shell, or for the program its #! line names. With words
// before it, it is the shell's own heredoc, so the shell gets all of it.
Command command_of(const oci::Instruction& instruction, const oci::ImageConfig& config) {
  Command command;
  if (instruction.exec_form) {
    command.argv = instruction.words;
    return command;
  }
  std::string script = instruction.text;
  if (!instruction.heredocs.empty()) {
    const oci::Heredoc& first = instruction.heredocs.front();
    const std::string_view text = trim(instruction.text);
    const bool alone =
        instruction.heredocs.size() == 1 && text.starts_with("<<") && text.find(' ') == text.npos;
    if (alone && first.content.starts_with("#!")) {
      const std::string line = first.content.substr(2, first.content.find('\n') - 2);
      for (const std::string_view word : split(trim(line), ' ')) {
        if (!word.empty()) {
          command.argv.emplace_back(word);
        }
      }
      command.input = first.content;
      return command;
    }
    if (alone) {
      script = first.content;
    } else {
      for (const oci::Heredoc& heredoc : instruction.heredocs) {
        script += concat("\n", heredoc.content, heredoc.name);
      }
      script += "\n";
    }
  }
  command.argv = config.shell.empty() ? std::vector<std::string>{"/bin/sh", "-c"} : config.shell;
  command.argv.push_back(std::move(script));
  return command;
}

// Arguments of the build are variables of the command too; ENV wins.
std::vector<std::string> environment_of(
    const oci::ImageConfig& config,
    const std::map<std::string, std::string, std::less<>>& arguments) {
  std::map<std::string, std::string, std::less<>> merged = config.env;
  merged.insert(arguments.begin(), arguments.end());
  std::vector<std::string> environment;
  for (const auto& [name, value] : merged) {
    environment.push_back(concat(name, "=", value));
  }
  return environment;
}

Json output_record(const guest::Output& output) {
  return Json::object(
      {{"type", "output"},
       {"stream", output.header.stream == guest::Stream::kStderr ? "stderr" : "stdout"},
       {"text", to_valid_utf8(output.bytes)}});
}

Task<std::uint32_t> resolve_id(const GuestClient& guest, std::string text, std::string file) {
  const auto content = co_await read_in_build(guest, file);
  const auto id = find_id(content ? *content : "", text);
  if (!id) {
    co_return refuse(concat("--chown: \"", text, "\" is not in ", file, " of the image"));
  }
  co_return *id;
}

}  // namespace

// --- RUN -------------------------------------------------------------------------------------

Task<> DockerfileBuild::run_command(const Instruction& instruction, Stage& stage) {
  const oci::ImageConfig& config = stage.image.config;
  Command command = command_of(instruction, config);
  guest::SpawnRequest request{.process_id = "run",
                              .argv = std::move(command.argv),
                              .env = environment_of(config, stage.arguments),
                              .cwd = config.working_dir.empty() ? "/" : config.working_dir,
                              .user = config.user,
                              .stdin_open = !command.input.empty(),
                              .timeout_ms = kMaxRunStepMs};
  CO_TRY_DO(guest::validate(request));
  std::vector<std::string> ingredients{"RUN", request.user, request.cwd, command.input};
  ingredients.insert(ingredients.end(), request.argv.begin(), request.argv.end());
  ingredients.emplace_back("env");
  ingredients.insert(ingredients.end(), request.env.begin(), request.env.end());
  const CellWork work = [&](const BuildCell& cell) {
    return run_in_build(cell, request, command.input,
                        [this](const guest::Output& output) { log_.add(output_record(output)); });
  };
  co_return co_await add_layer(ingredients, stage, work, request_.run_network);
}

// --- COPY and ADD ----------------------------------------------------------------------------

Task<TreeChanges> DockerfileBuild::changes_of(const Instruction& instruction, const Stage& stage,
                                              const BuildCell& cell) {
  TreeChanges changes{.uid = 0, .gid = 0};
  if (const auto chown = instruction.flags.find("chown"); chown != instruction.flags.end()) {
    CO_TRY(const std::string text, expand(chown->second, stage));
    const auto colon = text.find(':');
    const std::string user = text.substr(0, colon);
    CO_TRY(changes.uid, co_await resolve_id(cell.guest, user, "/etc/passwd"));
    const std::string group = colon == std::string::npos ? user : text.substr(colon + 1);
    // Without a group the number of the user is taken, as others do.
    if (colon == std::string::npos) {
      changes.gid = changes.uid;
    } else {
      CO_TRY(changes.gid, co_await resolve_id(cell.guest, group, "/etc/group"));
    }
  }
  if (const auto chmod = instruction.flags.find("chmod"); chmod != instruction.flags.end()) {
    CO_TRY(const std::string text, expand(chmod->second, stage));
    std::uint32_t mode = 0;
    const bool octal = !text.empty() && text.size() <= 5 &&
                       std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '7'; });
    for (const char c : text) {
      mode = mode * 8 + static_cast<std::uint32_t>(c - '0');
    }
    if (!octal || mode > 07777) {
      co_return refuse(concat("--chmod=", text, " must be octal such as 755"));
    }
    changes.mode = mode;
  }
  co_return changes;
}

Task<> DockerfileBuild::copy_from_context(const Instruction& instruction, Stage& stage) {
  oci::CopyRequest request{.unpack_archives = instruction.verb == oci::Verb::kAdd};
  CO_TRY(request.destination, destination_of(instruction, stage));
  std::vector<std::string> sources{instruction.words.begin(), instruction.words.end() - 1};
  if (!instruction.exec_form) {
    CO_TRY(sources, expand_all(sources, stage));
  }
  std::size_t heredoc = 0;
  for (std::string& source : sources) {
    if (source.starts_with("<<") && heredoc < instruction.heredocs.size()) {
      const oci::Heredoc& text = instruction.heredocs[heredoc++];
      std::string content = text.content;
      if (text.expand) {
        // As the shell does it in a heredoc: quotes are just characters.
        CO_TRY(content, expand(concat("\"", content, "\""), stage));
      }
      request.texts.emplace_back(text.name, std::move(content));
    } else {
      request.sources.push_back(std::move(source));
    }
  }
  const oci::BuildContext& context = *request_.context;
  CO_TRY(const auto plans,
         co_await factory_.pool().run([&] { return oci::plan_copy(context, request); }));
  std::vector<std::string> ingredients{instruction.keyword, request.destination};
  for (const auto& [name, value] : instruction.flags) {
    CO_TRY(const std::string expanded, expand(value, stage));
    ingredients.push_back(concat(name, "=", expanded));
  }
  for (const oci::CopyPlan& plan : plans.plans) {
    ingredients.push_back(plan.digest);
  }
  for (const oci::ContextEntry& archive : plans.archives) {
    ingredients.push_back(concat("archive ", archive.sha256));
  }
  const CellWork work = [&](const BuildCell& cell) -> Task<> {
    CO_TRY(const TreeChanges changes, co_await changes_of(instruction, stage, cell));
    // Without --chown an archive keeps the owners it has.
    const TreeChanges own =
        instruction.flags.contains("chown") ? changes : TreeChanges{.mode = changes.mode};
    co_return co_await copy_in_build(factory_, cell, {request_.context, request, changes, own});
  };
  co_return co_await add_layer(ingredients, stage, work);
}

Task<BuiltImage> DockerfileBuild::copy_source(const Instruction& instruction, std::size_t index) {
  const std::string& name = instruction.flags.at("from");
  if (const auto stage = find_stage(name, index)) {
    CO_TRY(const BuiltImage* image, co_await build_stage(*stage));
    co_return *image;
  }
  co_return co_await find_image_(name);
}

namespace {

// The paths that a source of COPY --from means: itself, or what its last part matches.
Task<std::vector<std::string>> match_in_guest(const GuestClient& guest, std::string path) {
  const auto slash = path.rfind('/');
  const std::string name = path.substr(slash + 1);
  if (!oci::has_wildcard(name)) {
    co_return std::vector{path};
  }
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  CO_TRY(const auto files, co_await guest.list_directory({.path = parent}));
  std::vector<std::string> matches;
  for (const guest::FileInfo& file : files) {
    if (oci::matches_path(name, file.name) && file.name.find('/') == std::string::npos) {
      matches.push_back(concat(slash == 0 ? "" : parent, "/", file.name));
    }
  }
  std::ranges::sort(matches);
  if (matches.empty()) {
    co_return fail(Code::kNotFound, concat(path, " matches nothing there"), "copy");
  }
  co_return matches;
}

struct Placement {
  std::string root;
  std::string rename;
};
// Where a file or directory of the source goes; see copy_plan.cpp for the rules.
Placement place(const std::string& source, bool source_is_directory, std::string destination,
                bool into) {
  into = into || destination.ends_with('/');
  while (destination.size() > 1 && destination.ends_with('/')) {
    destination.pop_back();
  }
  if (source_is_directory) {
    return {destination, ""};
  }
  if (into) {
    return {destination, source.substr(source.rfind('/') + 1)};
  }
  const auto slash = destination.rfind('/');
  return {slash == 0 ? "/" : destination.substr(0, slash), destination.substr(slash + 1)};
}

}  // namespace

Task<> DockerfileBuild::copy_from_image(const Instruction& instruction, std::size_t index,
                                        Stage& stage) {
  CO_TRY(const BuiltImage source, co_await copy_source(instruction, index));
  CO_TRY(const std::string destination, destination_of(instruction, stage));
  std::vector<std::string> paths{instruction.words.begin(), instruction.words.end() - 1};
  if (!instruction.exec_form) {
    CO_TRY(paths, expand_all(paths, stage));
  }
  std::vector<std::string> ingredients{"COPY --from", destination};
  for (std::string& path : paths) {
    auto clean = oci::clean_path(path);
    if (!clean) {
      co_return refuse(concat("\"", path, "\" is no path to copy"));
    }
    path = concat("/", *clean);
    ingredients.push_back(path);
  }
  for (const char* flag : {"chown", "chmod"}) {
    if (const auto given = instruction.flags.find(flag); given != instruction.flags.end()) {
      CO_TRY(const std::string value, expand(given->second, stage));
      ingredients.push_back(concat(flag, "=", value));
    }
  }
  ingredients.emplace_back("from");
  ingredients.insert(ingredients.end(), source.layers.begin(), source.layers.end());
  const CellWork write = [&](const BuildCell& target) -> Task<> {
    CO_TRY(const TreeChanges changes, co_await changes_of(instruction, stage, target));
    const auto there = co_await target.guest.stat({.path = destination});
    const bool into = there && there->type == guest::FileType::kDirectory;
    const CellWork read = [&](const BuildCell& from) -> Task<> {
      for (const std::string& path : paths) {
        CO_TRY(const auto matches, co_await match_in_guest(from.guest, path));
        if (paths.size() + matches.size() > 2 && !into && !destination.ends_with('/')) {
          co_return refuse(concat("several files are copied, so the destination ", destination,
                                  " must end with a slash"));
        }
        for (const std::string& match : matches) {
          CO_TRY(const auto info, co_await from.guest.stat({.path = match}));
          const bool directory = info.type == guest::FileType::kDirectory;
          const Placement where = place(match, directory, destination, into);
          CO_TRY_DO(co_await copy_tree(factory_.reactor(), {from.guest_socket, match, where.rename},
                                       {target.guest_socket, where.root, changes}));
        }
      }
      co_return ok();
    };
    co_return co_await factory_.look(source.layers, read);
  };
  co_return co_await add_layer(ingredients, stage, write);
}

}  // namespace atl::control
