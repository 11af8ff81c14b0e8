// Interpreters: made, given code, interrupted, restarted.
#include "base/strings.h"
#include "guest/wire.h"
#include "service/native/context_json.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/routes.h"

namespace atl::service::native {

using control::SandboxRef;

Task<Json> ContextRoutes::create_interpreter(SandboxRef sandbox,
                                             control::InterpreterRequest request, FirstCode code) {
  auto& interpreters = contexts_.interpreters();
  CO_TRY(const auto context, co_await interpreters.create(sandbox, std::move(request)));
  Json json = context_json(context);
  const std::string id = context.process.process_id;
  if (code.text && code.wait) {
    CO_TRY(const auto result, co_await interpreters.execute(
                                  std::move(sandbox), id,
                                  {.code = *std::move(code.text), .timeout_ms = code.timeout_ms}));
    set_execution(json, result);
  } else if (code.text) {
    if (!code.text->ends_with('\n')) {
      *code.text += '\n';  // a REPL on a terminal waits for it
    }
    CO_TRY_DO(co_await interpreters.send(std::move(sandbox), id, *std::move(code.text)));
  }
  co_return std::move(json);
}

// When the client goes away the code runs on, and its output stays in the context's journal.
Task<> ContextRoutes::execute(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  constexpr auto kMaxMs = static_cast<std::int64_t>(guest::kMaxTimeoutMs);
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"data", "timeout_ms"}));
  CO_TRY(auto code, fields.required_string("data"));
  CO_TRY(const auto timeout, fields.integer("timeout_ms", 0, kMaxMs));
  if (wants_lines(exchange)) {
    co_return co_await execute_and_stream(exchange, std::move(sandbox), std::move(id),
                                          std::move(code),
                                          static_cast<std::uint64_t>(timeout.value_or(0)));
  }
  CO_TRY(const auto result,
         co_await while_client_waits(
             exchange, contexts_.interpreters().execute(
                           std::move(sandbox), std::move(id),
                           {.code = std::move(code),
                            .timeout_ms = static_cast<std::uint64_t>(timeout.value_or(0))})));
  Json json = Json::object();
  set_execution(json, result);
  co_return co_await exchange.respond(data_response(200, std::move(json)));
}

Task<> ContextRoutes::interrupt(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY_DO(co_await contexts_.interpreters().interrupt(std::move(sandbox), std::move(id)));
  co_return co_await exchange.respond(data_response(200, Json::object({{"interrupted", true}})));
}

Task<> ContextRoutes::restart(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto context,
         co_await contexts_.interpreters().restart(std::move(sandbox), std::move(id)));
  co_return co_await exchange.respond(data_response(200, context_json(context)));
}

}  // namespace atl::service::native
