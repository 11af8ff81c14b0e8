#include "service/native/context_json.h"

#include <csignal>

#include "base/strings.h"
#include "control/interpreter.h"
#include "service/native/envelope.h"

namespace atl::service::native {
namespace {

std::string_view state_of(const guest::ProcessInfo& process) {
  if (process.running) {
    return "running";
  }
  if (process.exit.timed_out || process.exit.idle_timed_out ||
      (!process.exit.exited && process.exit.signal == SIGKILL) ||
      (process.exit.exited && process.exit.exit_code == 128 + SIGKILL)) {
    return "killed";
  }
  return process.exit.exited && process.exit.exit_code == 0 ? "stopped" : "crashed";
}

// As a shell counts: 128 + signal for a process that a signal ended.
std::uint32_t exit_code_of(const guest::ExitStatus& exit) {
  return exit.exited ? exit.exit_code : 128 + exit.signal;
}

// As text, and exactly (base64) where text cannot carry it.
void set_output(Json& json, std::string_view name, const std::string& bytes) {
  if (is_utf8(bytes)) {
    json.set(name, bytes);
    return;
  }
  json.set(name, to_valid_utf8(bytes));
  json.set(concat(name, "_base64"), base64_encode(bytes));
}

Json command_json(const std::vector<std::string>& argv) {
  Json command = Json::array();
  for (const auto& argument : argv) {
    command.push(argument);
  }
  return command;
}

Json results_json(const std::vector<control::RichResult>& results) {
  Json all = Json::array();
  for (const auto& result : results) {
    all.push(Json::object({{"is_main", result.is_main}, {"data", result.data}}));
  }
  return all;
}

// What an interactive interpreter would have shown: output, then the value or the traceback.
std::string shown_text(const control::InterpreterResult& result) {
  std::string text = result.combined;
  const auto add_line = [&text](const std::string& more) {
    text += more;
    if (!text.ends_with('\n')) {
      text += '\n';
    }
  };
  for (const auto& each : result.results) {
    const Json* plain = each.data.find("text/plain");
    if (each.is_main && plain != nullptr && plain->as_string() != nullptr) {
      add_line(*plain->as_string());
    }
  }
  if (result.error && !result.error->traceback.empty()) {
    add_line(result.error->traceback);
  }
  return text;
}

}  // namespace

void set_exit(Json& json, const guest::ProcessInfo& process) {
  json.set("state", state_of(process));
  if (process.running) {
    return;
  }
  json.set("exit_code", exit_code_of(process.exit));
  if (!process.exit.exited) {
    json.set("signal", process.exit.signal);
  }
  if (process.exit.timed_out) {
    json.set("timed_out", true);
  }
  if (process.exit.idle_timed_out) {
    json.set("idle_timed_out", true);
  }
}

Json context_json(const control::Context& context) {
  const auto& process = context.process;
  const auto alias = control::interpreter_alias(process);
  Json json = Json::object({{"id", process.process_id},
                            {"type", alias ? "repl" : "cmd"},
                            {"cwd", process.cwd},
                            {"user", process.user},
                            {"pid", process.pid},
                            {"running", process.running},
                            {"paused", false},
                            {"created_at", rfc3339(process.started_unix_ms)}});
  if (alias) {
    json.set("alias", *alias);  // its command is a driver, which is nobody's business
  } else {
    json.set("command", command_json(process.argv));
  }
  set_exit(json, process);
  if (context.output) {
    set_output(json, "stdout", context.output->standard_output);
    set_output(json, "stderr", context.output->standard_error);
    set_output(json, "output_raw", context.output->combined);
    if (context.output->truncated) {
      json.set("truncated", true);
    }
  }
  return json;
}

std::string_view source_name(guest::Stream stream) {
  switch (stream) {
    case guest::Stream::kStdout:
      return "stdout";
    case guest::Stream::kStderr:
      return "stderr";
    case guest::Stream::kPty:
      return "pty";
    case guest::Stream::kChannel:
      return "channel";
  }
  return "stdout";
}

void set_execution(Json& json, const control::InterpreterResult& result) {
  set_output(json, "output_raw", shown_text(result));
  set_output(json, "stdout", result.standard_output);
  set_output(json, "stderr", result.standard_error);
  set_ending(json, result);
}

void set_ending(Json& json, const control::InterpreterResult& result) {
  json.set("outcome", control::outcome_name(result.outcome));
  json.set("status", control::execution_status_name(result.status));
  json.set("results", results_json(result.results));
  if (result.error) {
    json.set("error", Json::object({{"name", result.error->name},
                                    {"value", result.error->value},
                                    {"traceback", result.error->traceback}}));
  }
  if (result.exit_code) {
    json.set("exit_code", *result.exit_code);
  }
  if (result.outcome == control::Outcome::kKilled) {
    json.set("signal", result.signal);
  }
  if (result.truncated) {
    json.set("truncated", true);
  }
  if (result.restarted) {
    json.set("restarted", true);
  }
  json.set("running", result.running);
  if (result.running) {
    json.set("state", "running");
  } else if (result.outcome == control::Outcome::kKilled) {
    json.set("state", "killed");
  } else {
    json.set("state", result.exit_code.value_or(1) == 0 ? "stopped" : "crashed");
  }
}

}  // namespace atl::service::native
