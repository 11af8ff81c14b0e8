#include "service/e2b/interpreter/code_interpreter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "control/limits.h"
#include "service/e2b/interpreter/execution_stream.h"
#include "service/e2b/lenient_fields.h"

namespace atl::service::e2b::interpreter {
namespace {

using control::InterpreterRequest;

constexpr std::string_view kDefaultPrefix = "default-";
constexpr std::string_view kDirectory = "/home/user";
constexpr std::array<std::string_view, 2> kListedDefaults{"python", "javascript"};
// Code as JSON writes it, and the environment beside it.
constexpr std::size_t kMaxExecuteBodyBytes =
    6 * control::kMaxCodeBytes + 6 * control::kMaxEnvBytes + std::size_t{4} * 1024;

// "js" -> "javascript"; of a REPL on a terminal the alias itself. kInvalidArgument: there is none.
Result<std::string> language_name(std::string_view asked) {
  const std::string alias = to_lower(asked);
  if (const auto language = control::find_language(alias)) {
    return std::string{language->name};
  }
  TRY_DO(control::validate_alias(alias));
  return alias;
}

std::string default_id(std::string_view language) {
  return concat(kDefaultPrefix, language);
}

InterpreterRequest interpreter_of(const SandboxTarget& target, std::string language,
                                  std::string cwd) {
  return {.alias = std::move(language),
          .cwd = cwd.empty() ? std::string{kDirectory} : std::move(cwd),
          .user = target.user};
}

// What the default context of this id is made of; nullopt: it is another context's id.
std::optional<InterpreterRequest> default_of(const SandboxTarget& target, std::string_view id) {
  if (!id.starts_with(kDefaultPrefix)) {
    return std::nullopt;
  }
  auto language = language_name(id.substr(kDefaultPrefix.size()));
  if (!language || default_id(*language) != id) {
    return std::nullopt;
  }
  return interpreter_of(target, *std::move(language), {});
}

Json context_json(std::string_view id, std::string_view language, std::string_view cwd) {
  return Json::object({{"id", id}, {"language", language}, {"cwd", cwd}});
}

Json context_json(const guest::ProcessInfo& process) {
  const auto language = control::language_of(process);
  const std::string name = language ? std::string{language->name}
                                    : control::interpreter_alias(process).value_or(std::string{});
  return context_json(process.process_id, to_valid_utf8(name), to_valid_utf8(process.cwd));
}

Error no_context(std::string_view id) {
  return Error{Code::kNotFound, concat("Context ", to_valid_utf8(id), " not found"),
               "process_not_found"};
}

Task<Json> read_execute_body(http::Body& body) {
  CO_TRY(const std::string text, co_await http::read_all(body, kMaxExecuteBodyBytes));
  CO_TRY(auto json, Json::parse(text));
  co_return std::move(json);
}

// An interpreter that cannot start is the server's failure to these clients.
int text_status(const Error& error) {
  return error.reason == "command_not_found" || error.reason == "interpreter_failed"
             ? 500
             : status_of(error);
}

}  // namespace

Task<> CodeInterpreter::handle(E2bExchange& exchange, const SandboxTarget& target) {
  auto served = co_await serve(exchange, target);
  if (!served && !exchange.started()) {
    const int status = text_status(served.error());
    const bool ours = status == 500 && status_of(served.error()) == 500;
    co_return co_await exchange.respond(
        {status,
         {{"Content-Type", "text/plain; charset=utf-8"}},
         ours ? concat("something went wrong on the server; its log has the details under request "
                       "id ",
                       exchange.request_id())
              : served.error().message});
  }
  co_return std::move(served);
}

Task<> CodeInterpreter::serve(E2bExchange& exchange, const SandboxTarget& target) {
  const auto& request = exchange.request();
  if (request.path == "/health" && request.method == "GET") {
    co_return co_await exchange.respond({200, {{"Content-Type", "text/plain"}}, "OK"});
  }
  if (!target.entitled) {
    co_return fail(Code::kUnauthenticated, "the sandbox's access token is needed here");
  }
  if (request.path == "/execute" && request.method == "POST") {
    co_return co_await execute(exchange, target);
  }
  if (request.path == "/contexts" && request.method == "POST") {
    co_return co_await create(exchange, target);
  }
  if (request.path == "/contexts" && request.method == "GET") {
    co_return co_await list(exchange, target);
  }
  const auto parts = split(request.path, '/');
  if (parts.size() >= 3 && parts[1] == "contexts") {
    const auto id = http::percent_decode(parts[2]);
    if (id && parts.size() == 3 && request.method == "DELETE") {
      co_return co_await remove(exchange, target, *id);
    }
    if (id && parts.size() == 4 && parts[3] == "restart" && request.method == "POST") {
      co_return co_await restart(exchange, target, *id);
    }
  }
  co_return fail(Code::kNotFound, concat("there is no ", request.method, " ",
                                         to_valid_utf8(request.path), " in the code interpreter"));
}

Task<> CodeInterpreter::execute(E2bExchange& exchange, const SandboxTarget& target) {
  CO_TRY(const Json body, co_await read_execute_body(exchange.body()));
  CO_TRY(const auto fields,
         LenientFields::of(body, "", {"code", "context_id", "language", "env_vars"}));
  CO_TRY(auto code, fields->string("code"));
  CO_TRY(const auto context, fields->string("context_id"));
  CO_TRY(const auto language, fields->string("language"));
  CO_TRY(auto env, fields->string_map("env_vars"));
  if (!code) {
    co_return fail(Code::kInvalidArgument, "field \"code\" is required");
  }
  if (context && language) {
    co_return fail(Code::kInvalidArgument, "Only one of context_id or language can be provided");
  }
  std::string id = context.value_or("");
  if (!context) {
    CO_TRY(const auto name, language_name(language.value_or("python")));
    id = default_id(name);
  }
  control::CodeRequest request{.code = *std::move(code),
                               .env = std::move(env),
                               .make = default_of(target, id),
                               .interrupt_when_cancelled = true};
  co_return co_await run_code(exchange, target, std::move(id), std::move(request));
}

// Until the code ends or the client goes, which interrupts it.
Task<> CodeInterpreter::run_code(E2bExchange& exchange, const SandboxTarget& target, std::string id,
                                 control::CodeRequest request) {
  ExecutionStream stream{exchange, clock_};
  request.output = [&stream](const guest::Output& output) { return stream.send_output(output); };
  request.results = [&stream](control::RichResult result) {
    return stream.send_result(std::move(result));
  };
  Scope beside{co_await current_context()};
  beside.on_error([](const char*, const Error&) {});  // the next line fails as well
  beside.spawn("alive", stream.keep_alive());
  auto result = co_await while_followed(
      exchange, contexts_.interpreters().execute(target.sandbox, id, std::move(request)));
  (void)co_await beside.cancel_and_join();
  if (!result && result.error().reason == "process_not_found") {
    co_return fail(no_context(id));
  }
  if (!result) {
    co_return fail(std::move(result).error());
  }
  if (result->outcome == control::Outcome::kLost) {
    // Broken off, or 502: clients then ask whether the sandbox is still there.
    if (exchange.started()) {
      co_return fail(Code::kUnavailable, "the sandbox went away while the code ran");
    }
    co_return co_await exchange.respond(
        {502, {{"Content-Type", "text/plain"}}, "the sandbox went away while the code ran"});
  }
  CO_TRY_DO(co_await stream.send_end(*result));
  co_return co_await exchange.finish();
}

Task<> CodeInterpreter::create(E2bExchange& exchange, const SandboxTarget& target) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"language", "cwd"}));
  CO_TRY(const auto asked, fields->string("language"));
  CO_TRY(const auto cwd, fields->string("cwd"));
  CO_TRY(auto language, language_name(asked.value_or("python")));
  CO_TRY(const auto context,
         co_await while_client_waits(
             exchange,
             contexts_.interpreters().create(
                 target.sandbox, interpreter_of(target, std::move(language), cwd.value_or("")))));
  co_return co_await exchange.respond_json(200, context_json(context.process));
}

Task<> CodeInterpreter::list(E2bExchange& exchange, const SandboxTarget& target) {
  CO_TRY(auto contexts, co_await contexts_.list(target.sandbox));
  std::erase_if(contexts, [](const control::Context& context) {
    return !control::interpreter_alias(context.process);
  });
  std::ranges::sort(contexts, {}, [](const control::Context& context) {
    return std::pair{context.process.started_unix_ms, context.process.pid};
  });
  Json answer = Json::array();
  for (const auto language : kListedDefaults) {
    const std::string id = default_id(language);
    if (std::ranges::none_of(contexts,
                             [&](const auto& each) { return each.process.process_id == id; })) {
      answer.push(context_json(id, language, kDirectory));
    }
  }
  for (const auto& context : contexts) {
    answer.push(context_json(context.process));
  }
  co_return co_await exchange.respond_json(200, answer);
}

Task<> CodeInterpreter::check_interpreter(const SandboxTarget& target, std::string id) {
  auto process = co_await contexts_.describe(target.sandbox, id);
  if (process ? !control::interpreter_alias(*process)
              : process.error().reason == "process_not_found") {
    co_return fail(no_context(id));
  }
  if (!process) {
    co_return fail(std::move(process).error());
  }
  co_return ok();
}

// A default context that has not begun yet is there all the same, and as good as new.
Task<> CodeInterpreter::remove(E2bExchange& exchange, const SandboxTarget& target, std::string id) {
  auto found = co_await check_interpreter(target, id);
  if (found) {
    found = co_await contexts_.remove(target.sandbox, id);
  } else if (found.error().code == Code::kNotFound && default_of(target, id)) {
    found = ok();
  }
  CO_TRY_DO(std::move(found));
  co_return co_await exchange.respond_empty(204);
}

Task<> CodeInterpreter::restart(E2bExchange& exchange, const SandboxTarget& target,
                                std::string id) {
  auto found = co_await check_interpreter(target, id);
  if (found) {
    auto restarted = co_await contexts_.interpreters().restart(target.sandbox, id);
    found = restarted ? Result<>{} : fail(std::move(restarted).error());
  } else if (found.error().code == Code::kNotFound && default_of(target, id)) {
    found = ok();
  }
  CO_TRY_DO(std::move(found));
  co_return co_await exchange.respond_empty(204);
}

}  // namespace atl::service::e2b::interpreter
