#include "oci/dockerfile.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"
#include "base/strings.h"
#include "oci/limits.h"
#include "oci/logical_lines.h"
#include "oci/words.h"

namespace atl::oci {
namespace {

struct KnownVerb {
  std::string_view keyword;
  Verb verb;
};
constexpr std::array<KnownVerb, 16> kVerbs{{{"RUN", Verb::kRun},
                                            {"COPY", Verb::kCopy},
                                            {"ADD", Verb::kAdd},
                                            {"ENV", Verb::kEnv},
                                            {"ARG", Verb::kArg},
                                            {"WORKDIR", Verb::kWorkdir},
                                            {"USER", Verb::kUser},
                                            {"CMD", Verb::kCommand},
                                            {"ENTRYPOINT", Verb::kEntrypoint},
                                            {"EXPOSE", Verb::kExpose},
                                            {"LABEL", Verb::kLabel},
                                            {"SHELL", Verb::kShell},
                                            {"VOLUME", Verb::kIgnored},
                                            {"HEALTHCHECK", Verb::kIgnored},
                                            {"STOPSIGNAL", Verb::kIgnored},
                                            {"MAINTAINER", Verb::kIgnored}}};

std::unexpected<Error> refuse(int line, std::string what) {
  return fail(at_line(line, Error{Code::kInvalidArgument, std::move(what), "dockerfile"}));
}

// ["a", "b"]: nullopt when the text is not a JSON list of strings.
std::optional<std::vector<std::string>> parse_exec_form(std::string_view text) {
  if (!trim(text).starts_with('[')) {
    return std::nullopt;
  }
  const auto json = Json::parse(trim(text));
  if (!json || json->as_array() == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> words;
  for (const Json& element : *json->as_array()) {
    if (element.as_string() == nullptr) {
      return std::nullopt;
    }
    words.push_back(*element.as_string());
  }
  return words;
}

// Takes "--name=value" words off the front.
void take_flags(std::string_view& text, Instruction& instruction) {
  for (text = trim_left(text); text.starts_with("--");) {
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view word = text.substr(2, end - 2);
    const auto equals = word.find('=');
    instruction.flags.insert_or_assign(
        std::string{word.substr(0, equals)},
        equals == word.npos ? std::string{"true"} : std::string{word.substr(equals + 1)});
    text = trim_left(text.substr(end));
  }
}

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

// "<<EOF", "<<-'EOF'", "<<\"EOF\"": what a heredoc word announces.
struct Announcement {
  Heredoc heredoc;
  bool strip_tabs = false;
};
std::optional<Announcement> parse_announcement(std::string_view word) {
  Announcement found;
  // "0<<EOF" redirects descriptor 0, which is what "<<EOF" means.
  const auto arrows = word.find("<<");
  if (arrows == word.npos || (arrows > 0 && word.substr(0, arrows) != "0")) {
    return std::nullopt;
  }
  word.remove_prefix(arrows + 2);
  if (word.starts_with('-')) {
    found.strip_tabs = true;
    word.remove_prefix(1);
  }
  if (word.size() >= 2 && (word.front() == '\'' || word.front() == '"') &&
      word.back() == word.front()) {
    found.heredoc.expand = false;
    word = word.substr(1, word.size() - 2);
  }
  if (!is_identifier(word)) {
    return std::nullopt;
  }
  found.heredoc.name = word;
  return found;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(text) { file_.escape = lines_.escape(); }

  Result<Dockerfile> parse() {
    int line = 0;
    std::size_t count = 0;
    while (const auto text = lines_.next(line)) {
      if (++count > kMaxInstructions) {
        return refuse(line, concat("more than ", kMaxInstructions, " instructions"));
      }
      TRY_DO(parse_line(*text, line));
    }
    if (file_.stages.empty()) {
      return fail(Code::kInvalidArgument, "the Dockerfile has no FROM", "dockerfile");
    }
    return std::move(file_);
  }

 private:
  Result<> parse_line(std::string_view text, int line) {
    text = trim_left(text);
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    std::string keyword{text.substr(0, end)};
    for (char& c : keyword) {
      c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    const std::string_view rest = trim(text.substr(end));
    if (keyword == "FROM") {
      return parse_from(rest, line);
    }
    if (keyword == "ONBUILD") {
      return refuse(line, "ONBUILD is not supported: there is no later build that would run it");
    }
    const auto known = std::ranges::find_if(
        kVerbs, [&](const KnownVerb& verb) { return verb.keyword == keyword; });
    if (known == kVerbs.end()) {
      return refuse(line, concat("there is no instruction \"", keyword, "\""));
    }
    Instruction instruction{.verb = known->verb, .line = line, .keyword = keyword};
    if (file_.stages.empty() && instruction.verb != Verb::kArg) {
      return refuse(line, concat(keyword, " before the first FROM; only ARG may come there"));
    }
    TRY_DO(parse_arguments(rest, instruction));
    (file_.stages.empty() ? file_.global_arguments : file_.stages.back().instructions)
        .push_back(std::move(instruction));
    return {};
  }

  Result<> parse_from(std::string_view rest, int line) {
    Instruction flags;
    take_flags(rest, flags);
    TRY(const auto words, split(rest, line));
    const bool named = words.size() == 3 && equals_ignore_case(words[1], "as");
    if (words.size() != 1 && !named) {
      return refuse(line, "write FROM <image> or FROM <image> AS <name>");
    }
    Stage stage{.line = line, .base = words[0]};
    for (const auto& [name, value] : flags.flags) {
      if (name != "platform") {
        return refuse(line, concat("FROM has no flag --", name));
      }
      stage.platform = value;
    }
    if (named) {
      stage.name = to_lower(words[2]);
      if (!is_identifier(stage.name)) {
        return refuse(line, concat("\"", words[2], "\" is no name for a stage"));
      }
    }
    if (file_.stages.size() >= kMaxStages) {
      return refuse(line, concat("more than ", kMaxStages, " stages"));
    }
    file_.stages.push_back(std::move(stage));
    return {};
  }

  Result<std::vector<std::string>> split(std::string_view text, int line) {
    auto words = split_words(text, file_.escape);
    if (!words) {
      return fail(at_line(line, std::move(words).error()));
    }
    return words;
  }

  Result<> parse_arguments(std::string_view rest, Instruction& instruction) {
    const Verb verb = instruction.verb;
    const bool may_have_flags = verb == Verb::kRun || verb == Verb::kCopy || verb == Verb::kAdd;
    if (may_have_flags) {
      take_flags(rest, instruction);
      TRY_DO(check_flags(instruction));
    }
    instruction.text = rest;
    const bool may_be_exec = may_have_flags || verb == Verb::kCommand ||
                             verb == Verb::kEntrypoint || verb == Verb::kShell;
    if (may_be_exec) {
      if (auto words = parse_exec_form(rest)) {
        instruction.exec_form = true;
        instruction.words = *std::move(words);
        return check_count(instruction);
      }
    }
    if (verb == Verb::kShell) {
      return refuse(instruction.line, "SHELL takes a JSON list, like SHELL [\"/bin/sh\", \"-c\"]");
    }
    if (may_have_flags) {
      TRY_DO(read_heredocs(instruction));
    }
    // The words of a shell command are the shell's business.
    if (verb != Verb::kRun && verb != Verb::kCommand && verb != Verb::kEntrypoint &&
        verb != Verb::kIgnored) {
      TRY(instruction.words, split(rest, instruction.line));
    }
    return check_count(instruction);
  }

  static Result<> check_flags(const Instruction& instruction) {
    const bool copies = instruction.verb != Verb::kRun;
    for (const auto& [name, value] : instruction.flags) {
      const bool known =
          copies ? (name == "chown" || name == "chmod" ||
                    (name == "from" && instruction.verb == Verb::kCopy) || name == "link")
                 : (name == "network" || name == "security");
      if (!known) {
        return refuse(instruction.line,
                      concat(instruction.keyword, " has no flag --", name, " here"));
      }
      if (name == "network" && value != "none" && value != "default") {
        return refuse(
            instruction.line,
            "RUN --network can only be none; the network of a build is its caller's choice "
            "(--build-network)");
      }
      if (name == "security" && value != "sandbox") {
        return refuse(instruction.line, "RUN always runs in a sandbox");
      }
    }
    return {};
  }

  static Result<> check_count(const Instruction& instruction) {
    const std::size_t count = instruction.words.size();
    const bool empty = instruction.text.empty() && count == 0;
    switch (instruction.verb) {
      case Verb::kIgnored:
        return {};
      case Verb::kCopy:
      case Verb::kAdd:
        if (count < 2) {
          return refuse(instruction.line, concat(instruction.keyword,
                                                 " needs at least one source and a destination"));
        }
        return {};
      case Verb::kWorkdir:
      case Verb::kUser:
        if (count != 1) {
          return refuse(instruction.line, concat(instruction.keyword, " takes one value"));
        }
        return {};
      case Verb::kCommand:
      case Verb::kEntrypoint:
        return {};  // an empty list takes back what the base image has
      default:
        if (empty || (instruction.exec_form && count == 0)) {
          return refuse(instruction.line, concat(instruction.keyword, " needs a value"));
        }
        return {};
    }
  }

  Result<> read_heredocs(Instruction& instruction) {
    const auto words = split_words(instruction.text, file_.escape);
    if (!words) {
      return {};  // a shell command with quotes of its own
    }
    for (const std::string& word : *words) {
      auto found = parse_announcement(word);
      if (!found) {
        continue;
      }
      for (;;) {
        auto line = lines_.next_raw();
        if (!line) {
          return refuse(instruction.line, concat("the end of <<", found->heredoc.name,
                                                 " is missing: a line with only that word"));
        }
        while (found->strip_tabs && line->starts_with('\t')) {
          line->remove_prefix(1);
        }
        if (*line == found->heredoc.name) {
          break;
        }
        found->heredoc.content += *line;
        found->heredoc.content += '\n';
      }
      instruction.heredocs.push_back(std::move(found->heredoc));
    }
    return {};
  }

  LogicalLines lines_;
  Dockerfile file_;
};

}  // namespace

std::string Instruction::display() const {
  std::string out = keyword;
  for (const auto& [name, value] : flags) {
    out += concat(" --", name, "=", value);
  }
  return concat(out, " ", text);
}

Error at_line(int line, Error error) {
  return std::move(error).note(concat("Dockerfile:", line));
}

Result<Dockerfile> parse_dockerfile(std::string_view text) {
  if (text.size() > kMaxDockerfileBytes) {
    return fail(Code::kInvalidArgument,
                concat("the Dockerfile is larger than ", kMaxDockerfileBytes, " bytes"),
                "dockerfile");
  }
  if (!is_utf8(text) || text.find('\0') != text.npos) {
    return fail(Code::kInvalidArgument, "the Dockerfile is not UTF-8 text", "dockerfile");
  }
  return Parser{text}.parse();
}

}  // namespace atl::oci
