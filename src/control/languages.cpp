#include "control/languages.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "control/interpreters/drivers.h"

namespace atl::control {
namespace {

constexpr std::string_view kMarker = "atoll-repl";

constexpr std::array<Language, 12> kLanguages{{
    {"python", "python", "python3", "python3"},
    {"python3", "python", "python3", "python3"},
    {"node", "javascript", "node", "nodejs", Interrupt::kChannel},
    {"javascript", "javascript", "node", "nodejs", Interrupt::kChannel},
    {"js", "javascript", "node", "nodejs", Interrupt::kChannel},
    {"typescript", "typescript", "node", "nodejs", Interrupt::kChannel},
    {"ts", "typescript", "node", "nodejs", Interrupt::kChannel},
    {"bash", "bash", "bash", "bash"},
    {"sh", "bash", "bash", "bash"},
    {"r", "r", "R", "r-base-core"},
    {"R", "r", "R", "r-base-core"},
    {"java", "java", "jshell", "default-jdk-headless"},
}};

const Language* look_up(std::string_view alias) {
  const auto* found = std::ranges::find(kLanguages, alias, &Language::alias);
  return found == kLanguages.end() ? nullptr : found;
}

}  // namespace

std::optional<Language> find_language(std::string_view alias) {
  const auto* language = look_up(alias);
  return language == nullptr ? std::nullopt : std::optional{*language};
}

std::vector<std::string> interpreter_command(const Language& language) {
  std::vector<std::string> command{std::string{language.program}};
  if (language.name == "python") {
    command.insert(command.end(), {"-u", "-c", kPythonDriver, kPythonCharts});
  } else if (language.name == "bash") {
    command.insert(command.end(), {"--norc", "--noprofile", "-c", kBashDriver});
  } else if (language.program == "node") {
    command.insert(command.end(), {"-e", kNodeDriver});
  } else {
    command = {"bash",
               "--norc",
               "--noprofile",
               "-c",
               kPipeBridge,
               command.front(),
               language.name == "r" ? kRDriver : kJavaDriver};
  }
  command.emplace_back(kMarker);
  command.emplace_back(language.alias);
  return command;
}

std::vector<std::string> interpreter_environment(const Language& language) {
  if (language.program != "node") {
    return {};
  }
  return {concat("ATOLL_LANGUAGE=", language.name)};
}

std::optional<Language> language_of(const guest::ProcessInfo& process) {
  const auto& argv = process.argv;
  if (!process.has_channel || argv.size() < 3 || argv[argv.size() - 2] != kMarker) {
    return std::nullopt;
  }
  const auto* language = look_up(argv.back());
  return language == nullptr ? std::nullopt : std::optional{*language};
}

}  // namespace atl::control
