// Runs CLI11 over the grammar. It throws; the throws end here.
#include "cli/parse.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/strings.h"
#include "cli/grammar.h"
#include "cli/help.h"
#include "cli/suggest.h"

namespace atl::cli {
namespace {

std::unexpected<Error> unknown_word(const CLI::App& app, const std::string& word,
                                    const Environment& environment) {
  if (word.starts_with("-")) {
    return usage_error(concat("unknown option ", word));
  }
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({})) {
    if (!find_grammar(command->get_name())->hidden) {
      known.push_back(command->get_name());
    }
  }
  for (const auto& other : environment.other_commands) {
    known.push_back(other.name);
  }
  const auto near = nearest_word(word, known);
  return usage_error(concat("there is no command \"", word, "\"",
                            near ? concat("; did you mean `atoll ", *near, "`?") : std::string{}));
}

// CLI11 knows nothing of what stands after --, so the usage line is ours.
HelpText command_help(const CLI::App& command) {
  std::string text = command.help();
  const auto begin = text.find("Usage:");
  const auto end = text.find('\n', begin);
  if (begin != std::string::npos && end != std::string::npos) {
    text.replace(begin, end - begin, concat("Usage: atoll ", help_of(command.get_name()).usage));
  }
  return HelpText{std::move(text)};
}

HelpText program_help(CLI::App& app, const Environment& environment) {
  std::string text = app.help();
  std::string others;
  for (const auto& other : environment.other_commands) {
    const std::size_t width = std::max<std::size_t>(other.name.size() + 2, 28);
    others +=
        concat("  ", other.name, std::string(width - other.name.size(), ' '), other.summary, "\n");
  }
  if (!others.empty()) {
    others.insert(0, "Server:\n");
  }
  return HelpText{concat(text, others, "\n", kProgramExamples, "\n")};
}

// A help flag before the command of run and exec is ours; after it, it is the command's.
Result<Parsed> parse(CLI::App& app, Raw& raw, std::vector<std::string> head,
                     std::optional<std::vector<std::string>> tail, const Environment& environment) {
  std::reverse(head.begin(), head.end());  // as CLI11 wants it
  try {
    app.parse(head);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? program_help(app, environment) : command_help(*chosen.front());
  } catch (const CLI::ExtrasError&) {
    const auto left_over = app.remaining(true);
    const auto chosen = app.get_subcommands();
    return usage_error(concat("unexpected \"", left_over.empty() ? "" : left_over.front(),
                              "\" of `atoll ", chosen.empty() ? "" : chosen.front()->get_name(),
                              "`"));
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());  // written for people
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    const auto left_over = app.remaining();
    if (left_over.empty()) {
      return program_help(app, environment);
    }
    return unknown_word(app, left_over.front(), environment);
  }
  raw.global.json = raw.output == "json";
  const auto* grammar = find_grammar(chosen.front()->get_name());
  if (tail && !grammar->takes_words) {
    return usage_error(concat("`atoll ", grammar->name, "` takes no command after --"));
  }
  raw.left_over = chosen.front()->remaining();
  raw.tail = std::move(tail);
  TRY(auto command, grammar->finish(raw));
  return Invocation{.global = std::move(raw.global), .command = std::move(command)};
}

}  // namespace

Result<Parsed> parse_arguments(const std::vector<std::string>& arguments,
                               const Environment& environment) {
  auto head = arguments;
  if (!head.empty() && head.front() == "help") {  // atoll help cp
    for (const auto& other : environment.other_commands) {
      if (head.size() == 2 && head.back() == other.name) {
        return HelpText{other.help};
      }
    }
    head.erase(head.begin());
    head.push_back("--help");
  } else if (!head.empty() && head.front() == "--version") {
    head.front() = "version";
  }
  std::optional<std::vector<std::string>> tail;
  if (const auto mark = std::find(head.begin(), head.end(), "--"); mark != head.end()) {
    tail.emplace(mark + 1, head.end());
    head.erase(mark, head.end());
  }
  Raw raw;
  CLI::App app{std::string{kProgramSummary}, "atoll"};
  describe_commands(app, raw);
  return parse(app, raw, std::move(head), std::move(tail), environment);
}

}  // namespace atl::cli
