#include "egress/mcp_policy.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace atl::egress {
namespace {

constexpr std::array<std::string_view, 10> kProtocolKeys{
    "jsonrpc", "id", "method", "params", "name", "arguments", "_meta", "result", "error", "tools"};
constexpr std::size_t kMaxBatch = 100;
constexpr std::int64_t kPatternMemoryBytes = 1 << 20;

std::unexpected<Error> refuse(std::string_view what) {
  return fail(Code::kInvalidArgument, concat("not a plain MCP message: ", what));
}

// "Method" beside "method" would be read by one parser and ignored by another.
Result<> check_keys(const Json& object) {
  for (const auto& [key, value] : *object.as_object()) {
    for (const auto known : kProtocolKeys) {
      if (key != known && equals_ignore_case(key, known)) {
        return refuse(concat("the key \"", key, "\" differs from \"", known, "\" in case only"));
      }
    }
  }
  return {};
}

bool in_list(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// RFC 6901.
const Json* at_pointer(const Json& value, std::string_view pointer) {
  const Json* here = &value;
  for (auto part : split(pointer.substr(1), '/')) {
    std::string key;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool escape = part[i] == '~' && i + 1 < part.size();
      key += escape ? (part[i + 1] == '1' ? '/' : '~') : part[i];
      i += escape ? 1 : 0;
    }
    if (const auto* array = here->as_array()) {
      const auto index = parse_u64(key);
      if (!index || *index >= array->size()) {
        return nullptr;
      }
      here = &(*array)[*index];
    } else {
      here = here->find(key);
      if (here == nullptr) {
        return nullptr;
      }
    }
  }
  return here;
}

Json denial_message(const Json* id, const std::string& reason) {
  Json error = Json::object({{"code", kMcpDeniedCode},
                             {"message", concat("denied by network policy: ", reason)},
                             {"data", Json::object({{"reason", "policy_denied"}})}});
  Json message = Json::object({{"jsonrpc", "2.0"}});
  message.set("id", *id);
  message.set("error", std::move(error));
  return message;
}

}  // namespace

struct McpPolicy::Compiled {
  const ProtocolRule* rule;
  struct Argument {
    const ArgumentRule* rule;
    std::unique_ptr<re2::RE2> pattern;
  };
  std::vector<Argument> arguments;
};

McpPolicy::McpPolicy(std::vector<Compiled> rules) : rules_(std::move(rules)) {}
McpPolicy::~McpPolicy() = default;

Result<std::unique_ptr<McpPolicy>> McpPolicy::compile(std::vector<const ProtocolRule*> rules) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemoryBytes);
  std::vector<Compiled> compiled;
  for (const auto* rule : rules) {
    Compiled one{.rule = rule};
    for (const auto& argument : rule->arguments) {
      auto pattern = std::make_unique<re2::RE2>(argument.pattern, options);
      if (!pattern->ok()) {
        return fail(Code::kInvalidArgument,
                    concat("the pattern \"", to_valid_utf8(argument.pattern),
                           "\" is not possible: ", pattern->error()));
      }
      one.arguments.push_back({&argument, std::move(pattern)});
    }
    compiled.push_back(std::move(one));
  }
  return std::unique_ptr<McpPolicy>(new McpPolicy(std::move(compiled)));
}

std::string McpPolicy::tool_denial(std::string_view name) const {
  for (const auto& one : rules_) {
    if (in_list(one.rule->tools.denied, name)) {
      return concat("the tool \"", name, "\" is denied");
    }
    if (!one.rule->tools.allowed.empty() && !in_list(one.rule->tools.allowed, name)) {
      return concat("the tool \"", name, "\" is not allowed");
    }
  }
  return {};
}

// REQUIRES: a tools/call whose params and name were checked.
namespace {

// Servers that trim names would read another one than we did. Blanks beyond ASCII are trimmed too,
// so a name begins and ends in ASCII.
bool is_plain_name(std::string_view name) {
  const auto edge = [](char c) { return c > 0x20 && c < 0x7f; };
  return !name.empty() && edge(name.front()) && edge(name.back()) &&
         std::ranges::none_of(name, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
}

}  // namespace

std::string McpPolicy::call_denial(const Json& message) const {
  const Json& params = *message.find("params");
  const auto& name = *params.find("name")->as_string();
  if (auto denial = tool_denial(name); !denial.empty()) {
    return denial;
  }
  static const Json kNone = Json::object();
  const Json* arguments = params.find("arguments");
  for (const auto& one : rules_) {
    for (const auto& [rule, pattern] : one.arguments) {
      if (rule->tool != name) {
        continue;
      }
      const Json* value = at_pointer(arguments == nullptr ? kNone : *arguments, rule->pointer);
      // A text is compared as it is, anything else as its JSON. What is absent matches nothing.
      const auto text = value == nullptr                ? std::string{}
                        : value->as_string() != nullptr ? *value->as_string()
                                                        : value->dump();
      const bool matches = value != nullptr && re2::RE2::FullMatch(text, *pattern);
      if (matches == rule->deny) {
        return concat("the argument ", rule->pointer, " of the tool \"", name,
                      rule->deny ? "\" is denied" : "\" is not allowed");
      }
    }
  }
  return {};
}

// The reason of a denial, or empty.
Result<std::string> McpPolicy::judge_message(const Json& message, McpVerdict& verdict) const {
  if (message.as_object() == nullptr) {
    return refuse("an element is no object");
  }
  TRY_DO(check_keys(message));
  const Json* version = message.find("jsonrpc");
  if (version == nullptr || version->as_string() == nullptr || *version->as_string() != "2.0") {
    return refuse("jsonrpc is not \"2.0\"");
  }
  const Json* id = message.find("id");
  if (id != nullptr && id->as_string() == nullptr && id->as_integer() == nullptr) {
    return refuse("the id is neither a text nor a whole number");
  }
  const Json* method = message.find("method");
  if (method == nullptr) {
    // The client's answer to something the server asked.
    verdict.operations.emplace_back("response");
    return std::string{};
  }
  if (method->as_string() == nullptr) {
    return refuse("the method is no text");
  }
  const auto& name = *method->as_string();
  if (!is_plain_name(name)) {
    return refuse("the method has blanks around it or control characters in it");
  }
  if (name == "tools/list" && id != nullptr) {
    verdict.list_ids.insert(id->dump());
  }
  if (name != "tools/call") {
    verdict.operations.push_back(name);
    return std::string{};
  }
  const Json* params = message.find("params");
  if (params == nullptr || params->as_object() == nullptr) {
    return refuse("tools/call has no params");
  }
  TRY_DO(check_keys(*params));
  const Json* tool = params->find("name");
  if (tool == nullptr || tool->as_string() == nullptr) {
    return refuse("tools/call names no tool");
  }
  if (!is_plain_name(*tool->as_string())) {
    return refuse("the tool's name has blanks around it or control characters in it");
  }
  verdict.operations.push_back(concat("tools/call ", *tool->as_string()));
  return call_denial(message);
}

Result<McpVerdict> McpPolicy::judge(std::string_view body) const {
  if (body.size() > kMaxMcpBodyBytes) {
    return fail(Code::kResourceExhausted,
                concat("an MCP message may have ", kMaxMcpBodyBytes, " bytes"));
  }
  TRY(const auto message, Json::parse(body));
  const auto* batch = message.as_array();
  if (batch != nullptr && (batch->empty() || batch->size() > kMaxBatch)) {
    return refuse(concat("an array of none or of more than ", kMaxBatch));
  }
  const Json::Array single{batch == nullptr ? message : Json{}};
  const auto& messages = batch == nullptr ? single : *batch;
  McpVerdict verdict;
  for (const auto& one : messages) {
    TRY(auto reason, judge_message(one, verdict));
    if (verdict.reason.empty()) {
      verdict.reason = std::move(reason);
    }
  }
  if (verdict.reason.empty()) {
    verdict.allowed = true;
    verdict.forward = message.dump();
    return verdict;
  }
  Json::Array denials;
  for (const auto& one : messages) {
    if (const Json* id = one.find("id"); id != nullptr && one.find("method") != nullptr) {
      denials.push_back(denial_message(id, verdict.reason));
    }
  }
  if (!denials.empty()) {
    verdict.denial = batch == nullptr ? denials.front().dump() : Json{std::move(denials)}.dump();
  }
  return verdict;
}

Json McpPolicy::filter_answer(Json message, const std::set<std::string>& list_ids) const {
  if (auto* batch = message.as_array()) {
    for (auto& one : *batch) {
      one = filter_answer(std::move(one), list_ids);
    }
    return message;
  }
  const Json* id = message.find("id");
  const Json* result = message.find("result");
  if (id == nullptr || result == nullptr || !list_ids.contains(id->dump())) {
    return message;
  }
  const Json* tools = result->find("tools");
  if (tools == nullptr || tools->as_array() == nullptr) {
    return message;
  }
  Json kept = Json::array();
  for (const auto& tool : *tools->as_array()) {
    const Json* name = tool.find("name");
    if (name != nullptr && name->as_string() != nullptr &&
        tool_denial(*name->as_string()).empty()) {
      kept.push(tool);
    }
  }
  Json filtered = *result;
  filtered.set("tools", std::move(kept));
  message.set("result", std::move(filtered));
  return message;
}

}  // namespace atl::egress
