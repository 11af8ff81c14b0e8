// Command contexts: start, wait, list, read, signal, feed, follow, delete.
#include <algorithm>
#include <csignal>

#include "base/strings.h"
#include "control/limits.h"
#include "guest/wire.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/routes.h"

namespace atl::service::native {
namespace {

using control::Permission;
using control::SandboxRef;

struct CreateBody {
  control::ContextRequest request;
  bool wait_until_done = false;
};

Result<std::optional<guest::PtySize>> parse_pty_size(const Fields& fields, std::string_view name) {
  if (!fields.has(name)) {
    return std::nullopt;
  }
  TRY(const auto size, fields.object(name, {"rows", "cols"}));
  TRY(const auto rows, size.integer("rows", 1, guest::kMaxPtyCells));
  TRY(const auto columns, size.integer("cols", 1, guest::kMaxPtyCells));
  return guest::PtySize{.rows = static_cast<std::uint32_t>(rows.value_or(24)),
                        .columns = static_cast<std::uint32_t>(columns.value_or(80))};
}

Result<std::uint64_t> parse_timeout(const Fields& fields) {
  constexpr auto kMaxMs = static_cast<std::int64_t>(guest::kMaxTimeoutMs);
  TRY(const auto ttl, fields.integer("ttl_sec", 0, kMaxMs / 1000));
  TRY(const auto timeout, fields.integer("timeout_ms", 0, kMaxMs));
  const std::int64_t by_ttl = ttl.value_or(0) * 1000;
  const std::int64_t by_timeout = timeout.value_or(0);
  if (by_ttl > 0 && by_timeout > 0) {
    return static_cast<std::uint64_t>(std::min(by_ttl, by_timeout));
  }
  return static_cast<std::uint64_t>(std::max(by_ttl, by_timeout));
}

Result<std::vector<std::string>> parse_command(const Fields& fields) {
  TRY(const auto type, fields.string("type"));
  if (type && *type != "cmd" && *type != "repl") {
    return fail(Code::kInvalidArgument, "field \"type\" must be \"cmd\" or \"repl\"");
  }
  if (type == "repl" || (!type && fields.has("repl"))) {
    return fail(Code::kUnimplemented,
                "REPL contexts are not available in this build yet; use type \"cmd\"");
  }
  if (fields.has("repl")) {
    return fail(Code::kInvalidArgument, "field \"repl\" does not go with type \"cmd\"");
  }
  TRY(const auto cmd, fields.object("cmd", {"command"}));
  TRY(auto command, cmd.strings("command"));
  if (command.empty() || command.front().empty()) {
    return fail(Code::kInvalidArgument,
                "field \"cmd.command\" is required: the program and its arguments, for example "
                "[\"sh\", \"-c\", \"echo hi\"]");
  }
  return command;
}

Result<CreateBody> parse_create(const Json& body) {
  CreateBody create;
  auto& request = create.request;
  TRY(const auto fields,
      Fields::of(body, "",
                 {"type", "cmd", "repl", "wait_until_done", "cwd", "env_vars", "pty_size",
                  "idle_timeout_sec", "ttl_sec", "user", "stdin", "stdin_open", "timeout_ms"}));
  TRY(request.command, parse_command(fields));
  TRY(const auto idle, fields.integer("idle_timeout_sec", 0, INT32_MAX));
  if (idle.value_or(0) != 0) {
    TRY_DO(fields.refuse_missing_features({"idle_timeout_sec"}));
  }
  TRY(const auto wait, fields.boolean("wait_until_done"));
  TRY(const auto cwd, fields.string("cwd"));
  TRY(const auto user, fields.string("user"));
  TRY(const auto stdin_open, fields.boolean("stdin_open"));
  TRY(request.env, fields.string_map("env_vars"));
  TRY(request.pty, parse_pty_size(fields, "pty_size"));
  TRY(request.input, fields.string("stdin"));
  TRY(request.timeout_ms, parse_timeout(fields));
  create.wait_until_done = wait.value_or(false);
  request.keep_input_open = stdin_open.value_or(false);
  if (create.wait_until_done && request.keep_input_open) {
    return fail(Code::kInvalidArgument,
                "\"stdin_open\" does not go with \"wait_until_done\": nobody could write to it");
  }
  if (cwd && !cwd->empty()) {
    request.cwd = cwd->starts_with('/') ? *cwd : concat(control::kDefaultDirectory, "/", *cwd);
  }
  if (user && !user->empty()) {
    request.user = *user;
  }
  return create;
}

std::string_view state_of(const guest::ProcessInfo& process) {
  if (process.running) {
    return "running";
  }
  if (process.exit.timed_out || (!process.exit.exited && process.exit.signal == SIGKILL) ||
      (process.exit.exited && process.exit.exit_code == 128 + SIGKILL)) {
    return "killed";
  }
  return process.exit.exited && process.exit.exit_code == 0 ? "stopped" : "crashed";
}

// As a shell counts: 128 + signal for a process that a signal ended.
std::uint32_t exit_code_of(const guest::ExitStatus& exit) {
  return exit.exited ? exit.exit_code : 128 + exit.signal;
}

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

Json context_json(const control::Context& context) {
  const auto& process = context.process;
  Json command = Json::array();
  for (const auto& argument : process.argv) {
    command.push(argument);
  }
  Json json = Json::object({{"id", process.process_id},
                            {"type", "cmd"},
                            {"command", std::move(command)},
                            {"cwd", process.cwd},
                            {"user", process.user},
                            {"pid", process.pid},
                            {"running", process.running},
                            {"paused", false},
                            {"created_at", rfc3339(process.started_unix_ms)}});
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

std::string output_line(const guest::Output& output) {
  return concat("{\"type\":\"output\",\"source\":\"", source_name(output.header.stream),
                "\",\"offset\":", output.header.offset, ",\"data_base64\":\"",
                base64_encode(output.bytes), "\"}\n");
}

std::string exit_line(const guest::ExitStatus& status) {
  Json line = Json::object({{"type", "exit"}});
  set_exit(line, guest::ProcessInfo{.running = false, .exit = status});
  return line.dump() + "\n";
}

}  // namespace

void ContextRoutes::add_to(RouteTable& table) {
  constexpr std::string_view kAll = "/api/v1/sandboxes/{id}/contexts";
  constexpr std::string_view kOne = "/api/v1/sandboxes/{id}/contexts/{ctx_id}";
  using Method = Task<> (ContextRoutes::*)(NativeExchange&, SandboxRef, std::string);
  const auto with_id = [this](Method method) {
    return [this, method](NativeExchange& exchange, const http::PathParameters& p) {
      return (this->*method)(exchange, sandbox_ref(exchange, p), parameter(p, "ctx_id"));
    };
  };
  table.add("POST", kAll, Permission::kSandboxWrite,
            [this](NativeExchange& e, const auto& p) { return create(e, sandbox_ref(e, p)); });
  table.add("GET", kAll, Permission::kSandboxRead,
            [this](NativeExchange& e, const auto& p) { return list(e, sandbox_ref(e, p)); });
  table.add("GET", kOne, Permission::kSandboxRead, with_id(&ContextRoutes::get));
  table.add("DELETE", kOne, Permission::kSandboxWrite, with_id(&ContextRoutes::remove));
  table.add("POST", concat(kOne, "/signal"), Permission::kSandboxWrite,
            with_id(&ContextRoutes::signal));
  table.add("POST", concat(kOne, "/input"), Permission::kSandboxWrite,
            with_id(&ContextRoutes::input));
  table.add("POST", concat(kOne, "/resize"), Permission::kSandboxWrite,
            with_id(&ContextRoutes::resize));
  table.add("GET", concat(kOne, "/stream"), Permission::kSandboxRead,
            with_id(&ContextRoutes::stream));
}

Task<> ContextRoutes::create(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(auto create, parse_create(body));
  Json env = Json::object();
  for (const auto& [name, value] : create.request.env) {
    env.set(name, value);
  }
  Result<control::Context> context;
  if (create.wait_until_done) {
    context = co_await while_client_waits(
        exchange, contexts_.create_and_wait(std::move(sandbox), std::move(create.request)));
  } else {
    context = co_await contexts_.create(std::move(sandbox), std::move(create.request));
  }
  if (!context) {
    co_return fail(std::move(context).error());
  }
  Json json = context_json(*context);
  json.set("env_vars", std::move(env));
  co_return co_await exchange.respond(data_response(201, std::move(json)));
}

Task<> ContextRoutes::list(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(const auto contexts, co_await contexts_.list(std::move(sandbox)));
  Json all = Json::array();
  for (const auto& context : contexts) {
    all.push(context_json(context));
  }
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"contexts", std::move(all)}})));
}

Task<> ContextRoutes::get(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto context, co_await contexts_.get(std::move(sandbox), std::move(id)));
  co_return co_await exchange.respond(data_response(200, context_json(context)));
}

Task<> ContextRoutes::remove(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY_DO(co_await contexts_.remove(std::move(sandbox), std::move(id)));
  co_return co_await exchange.respond(data_response(200, Json::object({{"deleted", true}})));
}

Task<> ContextRoutes::signal(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"signal"}));
  CO_TRY(const auto name, fields.required_string("signal"));
  CO_TRY(const auto number, control::parse_signal(name));
  CO_TRY_DO(co_await contexts_.signal(std::move(sandbox), std::move(id), number));
  co_return co_await exchange.respond(data_response(200, Json::object({{"signaled", true}})));
}

Task<> ContextRoutes::input(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"data", "data_base64", "eof"}));
  CO_TRY(const auto text, fields.string("data"));
  CO_TRY(const auto encoded, fields.string("data_base64"));
  CO_TRY(const auto eof, fields.boolean("eof"));
  if (text.has_value() == encoded.has_value() && !(eof.value_or(false) && !text)) {
    co_return fail(Code::kInvalidArgument,
                   "give one of \"data\" and \"data_base64\", or \"eof\": true alone");
  }
  std::optional<std::string> bytes = text ? text : std::string{};
  if (encoded) {
    bytes = base64_decode(*encoded);
  }
  if (!bytes) {
    co_return fail(Code::kInvalidArgument, "field \"data_base64\" is not valid base64");
  }
  CO_TRY_DO(co_await contexts_.input(std::move(sandbox), std::move(id), *std::move(bytes),
                                     eof.value_or(false)));
  co_return co_await exchange.respond(data_response(200, Json::object({{"written", true}})));
}

Task<> ContextRoutes::resize(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"rows", "cols"}));
  CO_TRY(const auto rows, fields.integer("rows", 1, guest::kMaxPtyCells));
  CO_TRY(const auto columns, fields.integer("cols", 1, guest::kMaxPtyCells));
  if (!rows || !columns) {
    co_return fail(Code::kInvalidArgument, "fields \"rows\" and \"cols\" are required");
  }
  const guest::PtySize size{static_cast<std::uint32_t>(*rows),
                            static_cast<std::uint32_t>(*columns)};
  CO_TRY_DO(co_await contexts_.resize(std::move(sandbox), std::move(id), size));
  co_return co_await exchange.respond(data_response(200, Json::object({{"resized", true}})));
}

// One JSON line per piece of output as it comes, the exit as the last line. A client that goes away
// while the process is silent is noticed too.
Task<> ContextRoutes::stream(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto from, query_integer(exchange.request().query, "from", 0, INT64_MAX));
  CO_TRY(const auto stream,
         co_await contexts_.follow(std::move(sandbox), std::move(id),
                                   static_cast<std::uint64_t>(from.value_or(0))));
  CO_TRY_DO(co_await exchange.start(
      200, {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"}},
      std::nullopt));
  for (;;) {
    Result<control::ProcessStream::Event> event;
    if (stream->ready()) {
      event = co_await stream->next();
    } else {
      event = co_await while_client_waits(exchange, stream->next());
    }
    if (!event) {
      co_return fail(std::move(event).error());
    }
    if (const auto* exit = std::get_if<guest::ExitStatus>(&*event)) {
      const std::string line = exit_line(*exit);
      CO_TRY_DO(co_await exchange.write(line));
      co_return co_await exchange.finish();
    }
    const std::string line = output_line(std::get<guest::Output>(*event));
    CO_TRY_DO(co_await exchange.write(line));
  }
}

}  // namespace atl::service::native
