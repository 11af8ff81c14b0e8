// Contexts: start, wait, list, read, signal, feed, delete. interpreter_routes.cpp runs code,
// context_lines.cpp answers line by line.
#include <algorithm>
#include <csignal>

#include "base/strings.h"
#include "base/trace.h"
#include "control/interpreter.h"
#include "control/limits.h"
#include "guest/wire.h"
#include "service/native/context_json.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/repl_config.h"
#include "service/native/routes.h"

namespace atl::service::native {
namespace {

using control::Permission;
using control::SandboxRef;

struct CreateBody {
  control::ContextRequest request;  // of a command
  std::optional<control::InterpreterRequest> interpreter;
  std::optional<std::string> code;  // to run when the interpreter is there
  std::uint64_t code_timeout_ms = 0;
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

constexpr auto kMaxMs = static_cast<std::int64_t>(guest::kMaxTimeoutMs);

// 0 means none.
std::uint64_t earlier(std::int64_t a_ms, std::int64_t b_ms) {
  return static_cast<std::uint64_t>(a_ms > 0 && b_ms > 0 ? std::min(a_ms, b_ms)
                                                         : std::max(a_ms, b_ms));
}

Result<bool> wants_interpreter(const Fields& fields) {
  TRY(const auto type, fields.string("type"));
  if (type && *type != "cmd" && *type != "repl") {
    return fail(Code::kInvalidArgument, "field \"type\" must be \"cmd\" or \"repl\"");
  }
  const bool repl = type == "repl" || (!type && fields.has("repl"));
  if (fields.has(repl ? "cmd" : "repl")) {
    return fail(Code::kInvalidArgument,
                concat("field \"", repl ? "cmd" : "repl", "\" does not go with type \"",
                       repl ? "repl" : "cmd", "\""));
  }
  return repl;
}

Result<> parse_interpreter(const Fields& fields, CreateBody& create) {
  for (const auto* name : {"stdin", "stdin_open"}) {
    if (fields.has(name)) {
      return fail(Code::kInvalidArgument,
                  concat("field \"", name, "\" does not go with type \"repl\""));
    }
  }
  TRY(const auto repl, fields.object("repl", {"alias", "input", "repl_config"}));
  TRY(const auto alias, repl.string("alias"));
  TRY(create.code, repl.string("input"));
  control::InterpreterRequest interpreter;
  if (alias && !alias->empty()) {
    interpreter.alias = *alias;
  }
  if (repl.has("repl_config")) {
    TRY(interpreter.config, parse_repl_config(repl));
  } else {
    TRY_DO(control::validate_alias(interpreter.alias));
  }
  if (create.code && create.code->empty()) {
    create.code.reset();
  }
  create.interpreter = std::move(interpreter);
  return {};
}

Result<> parse_command(const Fields& fields, control::ContextRequest& request) {
  TRY(const auto cmd, fields.object("cmd", {"command"}));
  TRY(request.command, cmd.strings("command"));
  if (request.command.empty() || request.command.front().empty()) {
    return fail(Code::kInvalidArgument,
                "field \"cmd.command\" is required: the program and its arguments, for example "
                "[\"sh\", \"-c\", \"echo hi\"]");
  }
  TRY(const auto stdin_open, fields.boolean("stdin_open"));
  request.keep_input_open = stdin_open.value_or(false);
  TRY(request.input, fields.string("stdin"));
  return {};
}

// ttl_sec bounds the process; timeout_ms bounds a command, or the code given along.
Result<> parse_times(const Fields& fields, CreateBody& create) {
  TRY(const auto idle, fields.integer("idle_timeout_sec", 0, kMaxMs / 1000));
  TRY(const auto ttl, fields.integer("ttl_sec", 0, kMaxMs / 1000));
  TRY(const auto timeout, fields.integer("timeout_ms", 0, kMaxMs));
  create.request.idle_timeout_ms = static_cast<std::uint64_t>(idle.value_or(0)) * 1000;
  create.request.timeout_ms = earlier(ttl.value_or(0) * 1000, timeout.value_or(0));
  if (create.interpreter) {
    create.code_timeout_ms = static_cast<std::uint64_t>(timeout.value_or(0));
    create.interpreter->ttl_ms = static_cast<std::uint64_t>(ttl.value_or(0)) * 1000;
    create.interpreter->idle_timeout_ms = create.request.idle_timeout_ms;
  }
  return {};
}

Result<CreateBody> parse_create(const Json& body) {
  CreateBody create;
  auto& request = create.request;
  TRY(const auto fields,
      Fields::of(body, "",
                 {"type", "cmd", "repl", "wait_until_done", "cwd", "env_vars", "pty_size",
                  "idle_timeout_sec", "ttl_sec", "user", "stdin", "stdin_open", "timeout_ms"}));
  TRY(const bool interpreter, wants_interpreter(fields));
  TRY_DO(interpreter ? parse_interpreter(fields, create) : parse_command(fields, request));
  TRY_DO(parse_times(fields, create));
  TRY(const auto wait, fields.boolean("wait_until_done"));
  TRY(const auto cwd, fields.string("cwd"));
  TRY(const auto user, fields.string("user"));
  TRY(request.env, fields.string_map("env_vars"));
  TRY(request.pty, parse_pty_size(fields, "pty_size"));
  create.wait_until_done = wait.value_or(false);
  if (create.wait_until_done && request.keep_input_open) {
    return fail(Code::kInvalidArgument,
                "\"stdin_open\" does not go with \"wait_until_done\": nobody could write to it");
  }
  if (cwd && !cwd->empty()) {
    request.cwd = *cwd;
  }
  if (user && !user->empty()) {
    request.user = *user;
  }
  return create;
}

Json env_json(const control::StringMap& env) {
  Json json = Json::object();
  for (const auto& [name, value] : env) {
    json.set(name, value);
  }
  return json;
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
            idempotency_.guard(
                [this](NativeExchange& e, const auto& p) { return create(e, sandbox_ref(e, p)); }));
  table.add("POST", concat(kOne, "/exec"), Permission::kSandboxWrite,
            idempotency_.guard(with_id(&ContextRoutes::execute)));
  table.add("POST", concat(kOne, "/interrupt"), Permission::kSandboxWrite,
            with_id(&ContextRoutes::interrupt));
  table.add("POST", concat(kOne, "/restart"), Permission::kSandboxWrite,
            with_id(&ContextRoutes::restart));
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
  table.add("GET", concat(kOne, "/ws"), Permission::kSandboxWrite, with_id(&ContextRoutes::socket));
}

Task<> ContextRoutes::create(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(auto create, parse_create(body));
  co_await mark(Step::kDecode);
  Json env = env_json(create.request.env);
  Json json;
  if (create.interpreter) {
    auto& interpreter = *create.interpreter;
    interpreter.cwd = std::move(create.request.cwd);
    interpreter.user = std::move(create.request.user);
    interpreter.env = std::move(create.request.env);
    interpreter.pty = create.request.pty;
    CO_TRY(json, co_await while_client_waits(
                     exchange,
                     create_interpreter(std::move(sandbox), std::move(interpreter),
                                        FirstCode{std::move(create.code), create.code_timeout_ms,
                                                  create.wait_until_done})));
  } else if (wants_lines(exchange)) {
    co_return co_await create_and_stream(exchange, std::move(sandbox), std::move(create.request),
                                         std::move(env));
  } else if (create.wait_until_done) {
    CO_TRY(const auto context,
           co_await while_client_waits(
               exchange, contexts_.create_and_wait(std::move(sandbox), std::move(create.request))));
    json = context_json(context);
  } else {
    CO_TRY(const auto context,
           co_await contexts_.create(std::move(sandbox), std::move(create.request)));
    json = context_json(context);
  }
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
  if (number == SIGINT) {
    // An interpreter has its own way to be interrupted; anything else gets the plain signal.
    auto done = co_await contexts_.interpreters().interrupt(sandbox, id);
    if (!done && done.error().reason != "not_an_interpreter") {
      co_return std::move(done);
    }
    if (done) {
      co_return co_await exchange.respond(data_response(200, Json::object({{"signaled", true}})));
    }
  }
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
  // To an interpreter, input is code that nobody waits for.
  auto sent = co_await contexts_.interpreters().send(sandbox, id, *bytes);
  if (!sent && sent.error().reason == "not_an_interpreter") {
    sent = co_await contexts_.input(std::move(sandbox), std::move(id), *std::move(bytes),
                                    eof.value_or(false));
  }
  CO_TRY_DO(std::move(sent));
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
  CO_TRY_DO(co_await contexts_.interpreters().resize(std::move(sandbox), std::move(id), size));
  co_return co_await exchange.respond(data_response(200, Json::object({{"resized", true}})));
}

}  // namespace atl::service::native
