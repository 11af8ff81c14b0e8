#include "cli/complete.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

using Kind = Completion::Kind;

struct KindOfName {
  std::string_view name;  // as it stands in the help
  Kind kind;
};
constexpr KindOfName kKinds[] = {
    {"FILE", Kind::kFiles},          {"DIR", Kind::kDirectories},
    {"SANDBOX", Kind::kSandbox},     {"TEMPLATE", Kind::kTemplate},
    {"SOURCE", Kind::kSandboxPlace}, {"DESTINATION", Kind::kSandboxPlace},
    {"PLACE", Kind::kSandboxPlace},  {"VOLUME", Kind::kVolume},
    {"ARG", Kind::kFiles},
};

Kind kind_of(std::string_view name) {
  const auto* found = std::ranges::find(kKinds, name, &KindOfName::name);
  return found == std::end(kKinds) ? Kind::kNothing : found->kind;
}

class Walker {
 public:
  Walker(CLI::App& app, const Raw& raw, const Environment& environment)
      : app_(app), raw_(raw), environment_(environment), at_(&app) {}

  // One whole word before the one being typed.
  void pass(const std::string& word) {
    if (waiting_ != nullptr) {
      waiting_ = nullptr;
    } else if (words_only_ || other_ != nullptr) {
      return;
    } else if (word == "--") {
      words_only_ = true;
    } else if (word.starts_with("-") && word != "-") {
      pass_option(word);
    } else if (at_ == &app_) {
      enter(word);
    } else {
      ++positionals_;
      words_only_ = find_grammar(at_->get_name())->takes_words && current_positional() == nullptr &&
                    positionals_ > at_->get_options(is_positional).size();
    }
  }

  Completion at(const std::string& typed) const {
    Completion completion{.kind = Kind::kWords, .prefix = typed, .candidates = {}};
    if (waiting_ != nullptr) {
      fill_values(completion, *waiting_, waiting_->get_type_name());
    } else if (words_only_) {
      completion.kind = Kind::kFiles;
    } else if (other_ != nullptr) {
      fill_other(completion);
    } else if (typed.starts_with("-")) {
      fill_options(completion);
    } else if (at_ == &app_) {
      fill_commands(completion);
    } else if (const auto* option = current_positional()) {
      fill_values(completion, *option, option->get_name());
    } else {
      completion.kind = find_grammar(at_->get_name())->takes_words ? Kind::kFiles : Kind::kNothing;
    }
    std::erase_if(completion.candidates, [&typed](const Candidate& candidate) {
      return !candidate.text.starts_with(typed);
    });
    return completion;
  }

 private:
  static bool is_positional(const CLI::Option* option) { return option->get_positional(); }

  void pass_option(const std::string& word) {
    if (word.contains('=')) {
      return;
    }
    const auto* option = at_->get_option_no_throw(word);
    if (option != nullptr && option->get_expected_max() > 0) {
      waiting_ = option;
    }
  }

  void enter(const std::string& word) {
    for (auto* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() == word) {
        at_ = command;
        return;
      }
    }
    const auto& others = environment_.other_commands;
    const auto found = std::ranges::find(others, word, &OtherCommand::name);
    other_ = found == others.end() ? nullptr : &*found;
    words_only_ = word != "help" && other_ == nullptr;
  }

  const CLI::Option* current_positional() const {
    const auto all = at_->get_options(is_positional);
    if (positionals_ < all.size()) {
      return all[positionals_];
    }
    return !all.empty() && all.back()->get_expected_max() > 1 ? all.back() : nullptr;
  }

  void fill_values(Completion& completion, const CLI::Option& option,
                   const std::string& name) const {
    const auto found = raw_.choices.find(&option);
    if (found == raw_.choices.end()) {
      completion.kind = kind_of(name);
      return;
    }
    for (const auto& choice : found->second) {
      completion.candidates.push_back({choice, {}});
    }
  }

  void fill_options(Completion& completion) const {
    for (const auto* option : at_->get_options()) {
      for (const auto& name : option->get_lnames()) {
        completion.candidates.push_back({concat("--", name), option->get_description()});
      }
      for (const auto& name : option->get_snames()) {
        completion.candidates.push_back({concat("-", name), option->get_description()});
      }
    }
  }

  // Its help has lines such as "  --listen ADDR:PORT   where the API answers".
  void fill_other(Completion& completion) const {
    if (!completion.prefix.starts_with("-")) {
      completion.kind = Kind::kFiles;
      return;
    }
    for (const auto line : split(other_->help, '\n')) {
      const auto words = split(trim(line), ' ');
      if (line.starts_with("  --")) {
        const auto gap = line.find("  ", 4);
        completion.candidates.push_back(
            {std::string{words.front()},
             std::string{gap == std::string_view::npos ? "" : trim(line.substr(gap))}});
      }
    }
  }

  void fill_commands(Completion& completion) const {
    for (const auto* command : app_.get_subcommands({})) {
      if (!find_grammar(command->get_name())->hidden) {
        completion.candidates.push_back({command->get_name(), command->get_description()});
      }
    }
    for (const auto& other : environment_.other_commands) {
      completion.candidates.push_back({other.name, other.summary});
    }
    completion.candidates.push_back({"help", "Explain a command"});
  }

  CLI::App& app_;
  const Raw& raw_;
  const Environment& environment_;
  CLI::App* at_;
  const OtherCommand* other_ = nullptr;
  const CLI::Option* waiting_ = nullptr;  // its value comes next
  std::size_t positionals_ = 0;
  bool words_only_ = false;  // what follows belongs to another program
};

// bash makes words of their own of = and : and what is around them.
std::vector<std::string> join_split_words(std::vector<std::string> words) {
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool glue = words[i] == ":" || words[i] == "=";
    if (glue && !joined.empty() && joined.back() != "--") {
      joined.back() += words[i];
      if (i + 1 < words.size()) {
        joined.back() += words[++i];
      }
    } else {
      joined.push_back(std::move(words[i]));
    }
  }
  return joined;
}

}  // namespace

Completion complete_words(std::vector<std::string> words, const Environment& environment) {
  words = join_split_words(std::move(words));
  if (words.empty()) {
    words.emplace_back();
  }
  std::string typed = std::move(words.back());
  words.pop_back();
  if (typed.starts_with("--") && typed.contains('=')) {  // --output=js
    const auto equals = typed.find('=');
    words.push_back(typed.substr(0, equals));
    typed.erase(0, equals + 1);
  }
  Raw raw;
  CLI::App app{"", "atoll"};
  describe_commands(app, raw);
  Walker walker{app, raw, environment};
  for (const auto& word : words) {
    walker.pass(word);
  }
  return walker.at(typed);
}

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") {
    return R"(# bash completion of atoll. Load it with: source <(atoll completion bash)
_atoll() {
  local line current=${COMP_WORDS[COMP_CWORD]}
  [[ $current == [:=] ]] && current=
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) compopt -o filenames 2>/dev/null
              mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
      :directories) compopt -o filenames 2>/dev/null
              mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current") ;;
      *) line=${line%%$'\t'*}
         [[ $line == *: ]] && compopt -o nospace 2>/dev/null
         COMPREPLY+=("$line") ;;
    esac
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _atoll atoll
)";
  }
  if (shell == "zsh") {
    return R"(#compdef atoll
# zsh completion of atoll. Load it with: source <(atoll completion zsh)
_atoll() {
  local line value description
  local -a candidates places
  while IFS= read -r line; do
    case $line in
      :files) _files ;;
      :directories) _files -/ ;;
      *) value=${line%%$'\t'*}
         description=${line#*$'\t'}
         if [[ $value == *: ]]; then
           places+=("$value")
         else
           candidates+=("${value//:/\\:}:$description")
         fi ;;
    esac
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#places )) && compadd -S '' -- $places
  (( $#candidates )) && _describe atoll candidates
}
compdef _atoll atoll
)";
  }
  return R"(# fish completion of atoll. Load it with: atoll completion fish | source
function __atoll_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for line in ($words[1] complete -- $words[2..-1] $current 2>/dev/null)
    switch $line
      case :files
        __fish_complete_path $current
      case :directories
        __fish_complete_directories $current
      case '*'
        echo $line
    end
  end
end
complete -c atoll -f -a '(__atoll_complete)'
)";
}

}  // namespace atl::cli
