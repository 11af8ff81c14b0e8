#include "control/repl_definition.h"

#include <array>
#include <initializer_list>

#include "base/bytes.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/interpreters/drivers.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::string_view kMagic = "atoll-repl-1";
// The token of the contract, for definitions that name none and may rely on it.
constexpr std::string_view kContractToken = "_S0_> ";
constexpr std::uint64_t kDefaultStartupDelayMs = 200;

// Short: sqlite3 keeps 19 bytes of a prompt.
std::string new_mark() {
  return concat("_S0_", random_hex(8));
}

struct Prompts {
  std::string main;
  std::string more;
};

ReplDefinition with_prompts(std::string_view alias, std::string_view package, Prompts& prompts) {
  ReplDefinition definition;
  definition.alias = alias;
  definition.package = package;
  definition.token = new_mark();
  definition.own_token = true;
  prompts = {definition.token + "> ", definition.token + "+ "};
  return definition;
}

// Without a way to set the prompt: the builtin one, and silence.
ReplDefinition with_token(std::string_view alias, std::string_view package, std::string_view token,
                          std::vector<ReplCandidate> candidates) {
  ReplDefinition definition;
  definition.alias = alias;
  definition.package = package;
  definition.ready = Ready::kToken;
  definition.token = token;
  definition.candidates = std::move(candidates);
  return definition;
}

ReplDefinition lua(std::string_view alias, std::initializer_list<std::string_view> programs) {
  Prompts prompts;
  auto definition = with_prompts(alias, alias == "lua" ? "lua5.4" : alias, prompts);
  const std::string setup =
      concat("_PROMPT=\"", prompts.main, "\" _PROMPT2=\"", prompts.more, "\"");
  for (const auto program : programs) {
    definition.candidates.push_back({std::string{program}, {"-e", setup, "-i"}});
  }
  return definition;
}

ReplDefinition ruby(std::string_view alias) {
  Prompts prompts;
  auto definition = with_prompts(alias, "ruby", prompts);
  definition.candidates = {{"irb", {"-f", "--nomultiline", "--nosingleline", "--nocolorize"}}};
  definition.setup = concat("conf.auto_indent_mode=false;conf.prompt_i=\"", prompts.main,
                            "\";conf.prompt_s=conf.prompt_c=\"", prompts.more,
                            "\";(conf.prompt_n=conf.prompt_c) rescue nil;nil");
  return definition;
}

ReplDefinition sqlite(std::string_view alias) {
  Prompts prompts;
  auto definition = with_prompts(alias, "sqlite3", prompts);
  definition.candidates = {
      {"sqlite3", {"-cmd", concat(".prompt \"", prompts.main, "\" \"", prompts.more, "\"")}}};
  return definition;
}

ReplDefinition zsh() {
  Prompts prompts;
  auto definition = with_prompts("zsh", "zsh", prompts);
  definition.candidates = {
      {"zsh", {"-f", "-i", "-o", "no_zle", "-o", "no_prompt_sp", "-o", "no_prompt_cr"}}};
  definition.env = {{"PS1", prompts.main}, {"PS2", prompts.more}};
  return definition;
}

ReplDefinition php() {
  Prompts prompts;
  auto definition = with_prompts("php", "php-cli php-readline", prompts);
  // \> is > at the top and the open bracket or quote within something.
  definition.candidates = {{"php", {"-d", concat("cli.prompt=", definition.token, "\\> "), "-a"}}};
  return definition;
}

ReplDefinition perl() {
  Prompts prompts;
  auto definition = with_prompts("perl", "perl", prompts);
  definition.candidates = {{"perl", {"-e", kPerlRepl, prompts.main, prompts.more}}};
  return definition;
}

bool one_line(std::string_view text) {
  return text.size() <= kMaxReplTokenBytes && text.find('\n') == std::string_view::npos &&
         text.find('\0') == std::string_view::npos;
}

}  // namespace

std::optional<ReplDefinition> find_repl(std::string_view alias) {
  if (alias == "ruby" || alias == "irb") {
    return ruby(alias);
  }
  if (alias == "lua") {
    return lua(alias, {"lua", "lua5.4", "lua5.3", "lua5.2", "lua5.1"});
  }
  for (const std::string_view version : {"lua5.4", "lua5.3", "lua5.2", "lua5.1", "luajit"}) {
    if (alias == version) {
      return lua(alias, {version});
    }
  }
  if (alias == "sqlite" || alias == "sqlite3") {
    return sqlite(alias);
  }
  if (alias == "zsh") {
    return zsh();
  }
  if (alias == "php") {
    return php();
  }
  if (alias == "perl") {
    return perl();
  }
  if (alias == "redis-cli") {
    return with_token(alias, "redis-tools", "> ", {{"redis-cli", {}}});
  }
  if (alias == "swift") {
    return with_token(alias, "swiftlang", "> ", {{"swift", {"repl"}}});
  }
  if (alias == "kotlin") {
    return with_token(alias, "kotlin", ">>> ", {{"kotlinc", {}}, {"kotlin", {}}});
  }
  return std::nullopt;
}

Result<ReplDefinition> define_repl(ReplConfig config) {
  ReplDefinition definition;
  definition.alias = config.name;
  definition.candidates = std::move(config.candidates);
  bool takes_prompt = false;
  for (const auto& variable : config.env) {
    takes_prompt = takes_prompt || variable.value_from == "prompt";
  }
  if (!config.ready_token.empty()) {
    definition.token = config.ready_token;
  } else if (!config.custom_prompt.empty()) {
    definition.token = config.custom_prompt;
  } else {
    definition.own_token = takes_prompt;
    definition.token = takes_prompt ? new_mark() + "> " : std::string{kContractToken};
  }
  if (!one_line(definition.token) || !one_line(config.custom_prompt)) {
    return fail(Code::kInvalidArgument,
                concat("a prompt is one line of at most ", kMaxReplTokenBytes, " bytes"));
  }
  definition.ready = config.ready_mode == "startup_delay" ? Ready::kSilence : Ready::kToken;
  if (definition.ready == Ready::kSilence) {
    definition.quiet_ms = config.startup_delay_ms.value_or(kDefaultStartupDelayMs);
  }
  const std::string term = config.default_term.empty() ? "dumb" : config.default_term;
  const std::string prompt = config.custom_prompt.empty() ? definition.token : config.custom_prompt;
  definition.env.emplace("TERM", term);
  for (auto& variable : config.env) {
    std::string value = variable.value_from.empty()     ? std::move(variable.value)
                        : variable.value_from == "term" ? term
                                                        : prompt;
    definition.env.insert_or_assign(std::move(variable.name), std::move(value));
  }
  TRY_DO(validate_env(definition.env, "repl_config.env"));
  if (repl_label(definition).size() > guest::kMaxLabelBytes) {
    return fail(Code::kInvalidArgument, "repl_config has too much environment");
  }
  return definition;
}

std::string repl_label(const ReplDefinition& definition) {
  ByteWriter out;
  out.string(kMagic).string(definition.alias).u8(static_cast<std::uint8_t>(definition.ready));
  out.string(definition.token).boolean(definition.own_token).u64(definition.quiet_ms);
  out.string(definition.setup);
  std::vector<std::string> env;
  for (const auto& [name, value] : definition.env) {
    env.push_back(name);
    env.push_back(value);
  }
  out.strings(env);
  return std::move(out).bytes();
}

// The guest may say anything here: what it cannot do is make us wait or keep without bound.
std::optional<ReplDefinition> repl_of(const guest::ProcessInfo& process) {
  if (!process.pty || process.label.empty()) {
    return std::nullopt;
  }
  ByteReader in{process.label};
  const bool ours = in.view() == kMagic;
  ReplDefinition definition;
  definition.alias = in.string();
  const auto ready = in.u8();
  definition.token = in.string();
  definition.own_token = in.boolean();
  definition.quiet_ms = in.u64();
  definition.setup = in.string();
  const auto env = in.strings();
  if (!in.finish() || !ours || ready > static_cast<std::uint8_t>(Ready::kSilence) ||
      definition.token.empty() || definition.token.size() > kMaxReplTokenBytes ||
      definition.quiet_ms > kMaxReplQuietMs || env.size() % 2 != 0 || !is_utf8(definition.alias)) {
    return std::nullopt;
  }
  definition.ready = static_cast<Ready>(ready);
  for (std::size_t i = 0; i < env.size(); i += 2) {
    definition.env.insert_or_assign(env[i], env[i + 1]);
  }
  return definition;
}

}  // namespace atl::control
