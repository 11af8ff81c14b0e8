#include "service/native/repl_config.h"

#include "base/strings.h"
#include "control/limits.h"

namespace atl::service::native {
namespace {

constexpr std::size_t kMaxNameBytes = 64;
constexpr std::size_t kMaxCandidates = 16;
constexpr std::size_t kMaxArguments = 64;
constexpr std::size_t kMaxVariables = 64;

Result<std::string> text_or_empty(const Fields& fields, std::string_view name) {
  TRY(auto text, fields.string(name));
  return std::move(text).value_or(std::string{});
}

Result<std::vector<control::ReplCandidate>> parse_candidates(const Fields& config) {
  TRY(const auto all, config.objects("candidates", {"name", "args"}));
  if (all.empty() || all.size() > kMaxCandidates) {
    return fail(Code::kInvalidArgument,
                concat("field \"repl.repl_config.candidates\" must name 1 to ", kMaxCandidates,
                       " programs, for example [{\"name\": \"python3\", \"args\": [\"-i\"]}]"));
  }
  std::vector<control::ReplCandidate> candidates;
  for (const auto& each : all) {
    control::ReplCandidate candidate;
    TRY(candidate.program, each.required_string("name"));
    TRY(candidate.arguments, each.strings("args"));
    if (candidate.program.empty() || candidate.arguments.size() > kMaxArguments) {
      return fail(Code::kInvalidArgument,
                  concat("a program of \"repl.repl_config.candidates\" needs a name and at most ",
                         kMaxArguments, " arguments"));
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Result<std::vector<control::ReplConfig::Variable>> parse_variables(const Fields& config) {
  TRY(const auto all, config.objects("env", {"name", "value", "value_from"}));
  if (all.size() > kMaxVariables) {
    return fail(Code::kInvalidArgument, concat("field \"repl.repl_config.env\" has more than ",
                                               kMaxVariables, " variables"));
  }
  std::vector<control::ReplConfig::Variable> variables;
  for (const auto& each : all) {
    control::ReplConfig::Variable variable;
    TRY(variable.name, each.required_string("name"));
    TRY(variable.value, text_or_empty(each, "value"));
    TRY(variable.value_from, text_or_empty(each, "value_from"));
    if (!variable.value_from.empty() && variable.value_from != "term" &&
        variable.value_from != "prompt") {
      return fail(Code::kInvalidArgument,
                  "\"value_from\" in \"repl.repl_config.env\" must be \"term\" or \"prompt\"");
    }
    variables.push_back(std::move(variable));
  }
  return variables;
}

}  // namespace

Result<control::ReplConfig> parse_repl_config(const Fields& repl) {
  TRY(const auto fields,
      repl.object("repl_config", {"name", "display_name", "description", "candidates", "env",
                                  "default_term", "prompt", "ready"}));
  control::ReplConfig config;
  TRY(config.name, fields.required_string("name"));
  if (config.name.empty() || config.name.size() > kMaxNameBytes) {
    return fail(Code::kInvalidArgument,
                concat("field \"repl.repl_config.name\" must have 1 to ", kMaxNameBytes, " bytes"));
  }
  TRY_DO(fields.string("display_name"));
  TRY_DO(fields.string("description"));
  TRY(config.candidates, parse_candidates(fields));
  TRY(config.env, parse_variables(fields));
  TRY(config.default_term, text_or_empty(fields, "default_term"));
  TRY(const auto prompt, fields.object("prompt", {"custom_prompt"}));
  TRY(config.custom_prompt, text_or_empty(prompt, "custom_prompt"));
  TRY(const auto ready, fields.object("ready", {"mode", "token", "startup_delay_ms"}));
  TRY(config.ready_mode, text_or_empty(ready, "mode"));
  TRY(config.ready_token, text_or_empty(ready, "token"));
  if (!config.ready_mode.empty() && config.ready_mode != "prompt_token" &&
      config.ready_mode != "startup_delay") {
    return fail(
        Code::kInvalidArgument,
        "field \"repl.repl_config.ready.mode\" must be \"prompt_token\" or \"startup_delay\"");
  }
  TRY(const auto delay, ready.integer("startup_delay_ms", 0, control::kMaxReplQuietMs));
  if (delay && *delay > 0) {
    config.startup_delay_ms = static_cast<std::uint64_t>(*delay);
  }
  return config;
}

}  // namespace atl::service::native
