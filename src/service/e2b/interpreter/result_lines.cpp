#include "service/e2b/interpreter/result_lines.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace atl::service::e2b::interpreter {
namespace {

using control::InterpreterResult;

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKeys{{
    {"text/plain", "text"},
    {"text/html", "html"},
    {"text/markdown", "markdown"},
    {"image/svg+xml", "svg"},
    {"image/png", "png"},
    {"image/jpeg", "jpeg"},
    {"application/pdf", "pdf"},
    {"text/latex", "latex"},
    {"application/json", "json"},
    {"application/javascript", "javascript"},
    {"application/vnd.atoll.frame+json", "data"},
    {"application/vnd.atoll.chart+json", "chart"},
}};

// A string's value, not its literal, is what clients show.
Json without_quotes(Json value) {
  const auto* text = std::as_const(value).as_string();
  if (text == nullptr || text->size() < 2 || text->front() != text->back() ||
      (text->front() != '\'' && text->front() != '"')) {
    return value;
  }
  return Json{text->substr(1, text->size() - 2)};
}

std::string line_of(const Json& json) {
  return json.dump() + "\n";
}

std::string death(const InterpreterResult& result) {
  const std::string how = result.signal != 0
                              ? concat("by signal ", result.signal)
                              : concat("with exit status ", result.exit_code.value_or(0));
  return concat("the interpreter ended ", how, "; the next execution starts a new one");
}

}  // namespace

Json result_line(control::RichResult result) {
  Json line = Json::object({{"type", "result"}});
  Json extra = Json::object();
  if (auto* members = result.data.as_object()) {
    for (auto& [mime, value] : *members) {
      if (mime.find('/') == std::string::npos) {
        continue;  // no type, and it might be a member that clients go by
      }
      const auto* key = std::ranges::find(kKeys, mime, &decltype(kKeys)::value_type::first);
      if (key == kKeys.end()) {
        extra.set(mime, value);            // where the Python package looks for it
        line.set(mime, std::move(value));  // and where the other one does
      } else if (key->second == "text") {
        line.set(key->second, without_quotes(std::move(value)));
      } else {
        line.set(key->second, std::move(value));
      }
    }
  }
  if (!extra.as_object()->empty()) {
    line.set("extra", std::move(extra));
  }
  line.set("is_main_result", result.is_main);
  return line;
}

Json error_line(std::string_view name, std::string_view value, std::string_view traceback) {
  return Json::object(
      {{"type", "error"}, {"name", name}, {"value", value}, {"traceback", traceback}});
}

std::string ending_lines(const InterpreterResult& result) {
  std::string lines;
  if (result.execution_count) {
    lines += line_of(Json::object(
        {{"type", "number_of_executions"}, {"execution_count", *result.execution_count}}));
  }
  if (result.error) {
    lines += line_of(error_line(result.error->name, result.error->value, result.error->traceback));
  } else if (!result.running) {
    const std::string how = death(result);
    lines += line_of(error_line("InterpreterEnded", how, how));
  } else if (result.status == control::ExecutionStatus::kIncomplete) {
    lines += line_of(error_line("Incomplete", "the code is not complete", ""));
  } else if (result.exit_code.value_or(0) != 0) {  // of a shell's last command
    const std::string code = std::to_string(*result.exit_code);
    lines += line_of(error_line("ExitStatus", code, concat("exit status ", code)));
  } else if (result.status == control::ExecutionStatus::kInterrupted) {
    lines += line_of(error_line("Interrupted", "interrupted", ""));
  }
  return lines;
}

}  // namespace atl::service::e2b::interpreter
