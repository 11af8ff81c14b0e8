// The instructions that change the configuration only: ENV, ARG, WORKDIR, USER, CMD and their kind.
#include <algorithm>

#include "base/strings.h"
#include "control/dockerfile_build.h"
#include "oci/words.h"

namespace atl::control {
namespace {

using oci::Verb;
using Map = std::map<std::string, std::string, std::less<>>;

std::unexpected<Error> refuse(std::string what) {
  return fail(Code::kInvalidArgument, std::move(what), "dockerfile");
}

std::vector<std::string> shell_of(const oci::ImageConfig& config) {
  return config.shell.empty() ? std::vector<std::string>{"/bin/sh", "-c"} : config.shell;
}

std::vector<std::string> command_of(const oci::Instruction& instruction,
                                    const oci::ImageConfig& config) {
  if (instruction.exec_form || instruction.text.empty()) {
    return instruction.words;
  }
  std::vector<std::string> command = shell_of(config);
  command.push_back(instruction.text);
  return command;
}

}  // namespace

Result<std::string> DockerfileBuild::expand(std::string_view word, const Stage& stage) const {
  const oci::Lookup lookup = [&stage](std::string_view name) -> std::optional<std::string> {
    if (const auto found = stage.image.config.env.find(name);
        found != stage.image.config.env.end()) {
      return found->second;
    }
    const auto found = stage.arguments.find(name);
    return found == stage.arguments.end() ? std::nullopt : std::optional{found->second};
  };
  return oci::expand_word(word, lookup, request_.file.escape);
}

Result<std::vector<std::string>> DockerfileBuild::expand_all(const std::vector<std::string>& words,
                                                             const Stage& stage) const {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    TRY(out.emplace_back(), expand(word, stage));
  }
  return out;
}

Result<std::string> DockerfileBuild::destination_of(const Instruction& instruction,
                                                    const Stage& stage) const {
  std::string text = instruction.words.back();
  if (!instruction.exec_form) {
    TRY(text, expand(text, stage));
  }
  const bool directory = text.ends_with('/') || text == "." || text.ends_with("/.");
  const std::string& base = stage.image.config.working_dir;
  std::string path = join_path(base.empty() ? "/" : base, text);
  if (directory && !path.ends_with('/')) {
    path += '/';
  }
  return path;
}

// "A=1 B='x y'", or the old "A the rest of the line".
Result<> DockerfileBuild::set_pairs(const Instruction& instruction, Stage& stage, Map& into) {
  const auto& words = instruction.words;
  if (words[0].find('=') == std::string::npos) {
    if (words.size() < 2) {
      return refuse(concat(instruction.keyword, " ", words[0], " has no value"));
    }
    const std::string_view rest = trim(std::string_view{instruction.text}.substr(
        instruction.text.find(words[0]) + words[0].size()));
    TRY(into[words[0]], expand(rest, stage));
    return {};
  }
  Map added;  // all of one line see the values from before it
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return refuse(concat(instruction.keyword, " needs name=value, not \"", word, "\""));
    }
    TRY(const std::string name, expand(word.substr(0, equals), stage));
    TRY(added[name], expand(word.substr(equals + 1), stage));
  }
  for (auto& [name, value] : added) {
    into.insert_or_assign(name, std::move(value));
  }
  return {};
}

// A value given for this build, else the default, else the one of a global ARG with this name.
Result<> DockerfileBuild::declare_argument(const Instruction& instruction, Stage& stage) {
  for (const std::string& word : instruction.words) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name.empty()) {
      return refuse("ARG needs a name");
    }
    if (const auto given = request_.arguments.find(name); given != request_.arguments.end()) {
      stage.arguments.insert_or_assign(name, given->second);
    } else if (equals != std::string::npos) {
      TRY(stage.arguments[name], expand(word.substr(equals + 1), stage));
    } else if (const auto global = global_arguments_.find(name);
               global != global_arguments_.end()) {
      stage.arguments.insert_or_assign(name, global->second);
    }
  }
  return {};
}

Result<> DockerfileBuild::change_directory(const std::string& path, Stage& stage) {
  std::string& current = stage.image.config.working_dir;
  current = join_path(current.empty() ? "/" : current, path);
  stage.pending_directories.push_back(current);
  return {};
}

Result<> DockerfileBuild::configure(const Instruction& instruction, Stage& stage) {
  oci::ImageConfig& config = stage.image.config;
  switch (instruction.verb) {
    case Verb::kEnv:
      return set_pairs(instruction, stage, config.env);
    case Verb::kLabel:
      return set_pairs(instruction, stage, config.labels);
    case Verb::kArg:
      return declare_argument(instruction, stage);
    case Verb::kWorkdir: {
      TRY(const std::string path, expand(instruction.words[0], stage));
      return change_directory(path, stage);
    }
    case Verb::kUser: {
      TRY(config.user, expand(instruction.words[0], stage));
      return {};
    }
    case Verb::kExpose: {
      TRY(const auto ports, expand_all(instruction.words, stage));
      for (const std::string& port : ports) {
        if (std::ranges::find(config.exposed_ports, port) == config.exposed_ports.end()) {
          config.exposed_ports.push_back(port);
        }
      }
      return {};
    }
    case Verb::kShell:
      config.shell = instruction.words;
      return {};
    case Verb::kCommand:
      config.command = command_of(instruction, config);
      stage.command_set = true;
      return {};
    case Verb::kEntrypoint:
      config.entrypoint = command_of(instruction, config);
      if (!stage.command_set) {
        config.command.clear();  // the base image's command was for its own entry point
      }
      return {};
    default:
      return refuse(concat(instruction.keyword, " is not possible here"));
  }
}

}  // namespace atl::control
