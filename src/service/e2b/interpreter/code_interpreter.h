// The code interpreter that E2B's clients find at port 49999 of a sandbox: code in, lines of JSON
// out, contexts that keep state.
//
//   GET    /health                 200
//   POST   /execute                {code, context_id?, language?, env_vars?} -> lines
//   POST   /contexts               {language?, cwd?} -> {id, language, cwd}
//   GET    /contexts               an array, oldest first
//   DELETE /contexts/{id}
//   POST   /contexts/{id}/restart
//
// Nothing listens inside the sandbox: contexts are control's interpreters, the same that the native
// API shows. The one that serves a language when no context is named has the id
// "default-<language>", is always there for the asking and starts with its first code; those of
// Python and JavaScript are listed before that too. Errors are plain text.
//
// Clients send the sandbox's access token with /execute and with nothing else, so code runs only
// with the token, and the rest is as open as the ports of the sandbox are: entitlement.h decides.
// Loop thread only.
#pragma once

#include <string>

#include "base/clock.h"
#include "control/contexts.h"
#include "control/interpreter.h"
#include "service/e2b/e2b_exchange.h"
#include "service/e2b/sandbox_target.h"

namespace atl::service::e2b::interpreter {

class CodeInterpreter {
 public:
  CodeInterpreter(control::Contexts& contexts, const WallClock& clock)
      : contexts_(contexts), clock_(clock) {}
  CodeInterpreter(const CodeInterpreter&) = delete;
  CodeInterpreter& operator=(const CodeInterpreter&) = delete;

  Task<> handle(E2bExchange& exchange, const SandboxTarget& target);

 private:
  Task<> serve(E2bExchange& exchange, const SandboxTarget& target);
  Task<> execute(E2bExchange& exchange, const SandboxTarget& target);
  Task<> run_code(E2bExchange& exchange, const SandboxTarget& target, std::string id,
                  control::CodeRequest request);
  Task<> create(E2bExchange& exchange, const SandboxTarget& target);
  Task<> list(E2bExchange& exchange, const SandboxTarget& target);
  Task<> remove(E2bExchange& exchange, const SandboxTarget& target, std::string id);
  Task<> restart(E2bExchange& exchange, const SandboxTarget& target, std::string id);
  // kNotFound when it is no interpreter.
  Task<> check_interpreter(const SandboxTarget& target, std::string id);

  control::Contexts& contexts_;
  const WallClock& clock_;
};

}  // namespace atl::service::e2b::interpreter
