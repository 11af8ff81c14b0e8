#include "plan.h"

#include "base/strings.h"

namespace atl::bench {
namespace {

std::string text_of(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  return member != nullptr && member->as_string() != nullptr ? *member->as_string() : std::string{};
}

std::size_t number_of(const Json& json, std::string_view key, std::size_t otherwise) {
  const Json* member = json.find(key);
  return member != nullptr && member->as_integer() != nullptr && *member->as_integer() >= 0
             ? static_cast<std::size_t>(*member->as_integer())
             : otherwise;
}

std::vector<std::string> texts_of(const Json& json, std::string_view key) {
  std::vector<std::string> texts;
  if (const Json* member = json.find(key); member != nullptr && member->as_array() != nullptr) {
    for (const Json& each : *member->as_array()) {
      texts.push_back(each.as_string() != nullptr ? *each.as_string() : std::string{});
    }
  }
  return texts;
}

std::vector<Step> steps_of(const Json& json, std::string_view key) {
  std::vector<Step> steps;
  const Json* member = json.find(key);
  if (member == nullptr || member->as_array() == nullptr) {
    return steps;
  }
  for (const Json& each : *member->as_array()) {
    Step step{.method = text_of(each, "method"),
              .path = text_of(each, "path"),
              .body = text_of(each, "body"),
              .type = text_of(each, "type"),
              .save = {},
              .expect = text_of(each, "expect")};
    if (const Json* save = each.find("save"); save != nullptr && save->as_object() != nullptr) {
      for (const auto& [name, field] : *save->as_object()) {
        step.save.emplace_back(name, field.as_string() != nullptr ? *field.as_string() : name);
      }
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  TRY(const Json json, Json::parse(text));
  Plan plan;
  plan.rounds = number_of(json, "rounds", 1);
  plan.warmup = number_of(json, "warmup", 0);
  plan.workers = number_of(json, "workers", 1);
  plan.silence_ms = number_of(json, "silence_ms", plan.silence_ms);
  if (const Json* seconds = json.find("seconds"); seconds != nullptr) {
    plan.seconds = seconds->as_number().value_or(0);
  }
  const Json* contestants = json.find("contestants");
  if (contestants == nullptr || contestants->as_array() == nullptr || plan.workers == 0) {
    return fail(Code::kInvalidArgument, "a plan has contestants and at least one worker");
  }
  for (const Json& each : *contestants->as_array()) {
    Contestant one{.name = text_of(each, "name"),
                   .url = text_of(each, "url"),
                   .authorization = text_of(each, "authorization"),
                   .setup = steps_of(each, "setup"),
                   .timed = steps_of(each, "timed"),
                   .after = steps_of(each, "after"),
                   .teardown = steps_of(each, "teardown"),
                   .items = texts_of(each, "items"),
                   .operations = number_of(each, "operations", 0),
                   .collect = text_of(each, "collect"),
                   .command = texts_of(each, "command"),
                   .floor = texts_of(each, "floor")};
    if (one.url.empty() && one.command.empty() && one.floor.empty()) {
      return fail(Code::kInvalidArgument, concat(one.name, " has no url, command or floor"));
    }
    plan.contestants.push_back(std::move(one));
  }
  return plan;
}

}  // namespace atl::bench
