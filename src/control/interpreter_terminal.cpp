// Interpreters, the part for REPLs on a terminal, and what they have in common with drivers.
#include <algorithm>
#include <csignal>

#include "base/strings.h"
#include "control/interpreter.h"
#include "control/limits.h"

namespace atl::control {
namespace {

std::string key_of(const SandboxRef& sandbox, std::string_view id) {
  return concat(sandbox.sandbox_id, "/", id);
}

Error not_in_image(const ReplDefinition& definition) {
  std::string programs;
  for (const auto& candidate : definition.candidates) {
    programs += concat(programs.empty() ? "" : ", ", candidate.program);
  }
  return Error{Code::kFailedPrecondition,
               concat("the image has no ", programs, ", which the interpreter \"",
                      to_valid_utf8(definition.alias), "\" needs",
                      definition.package.empty()
                          ? std::string{}
                          : concat("; in Debian: apt-get install ", definition.package)),
               "command_not_found"};
}

}  // namespace

Result<> validate_alias(std::string_view alias) {
  if (find_language(alias) || find_repl(alias)) {
    return {};
  }
  return fail(
      Code::kInvalidArgument,
      concat("there is no interpreter \"", to_valid_utf8(alias),
             "\"; use python, javascript, typescript, bash, zsh, ruby, lua, r, sqlite, php, "
             "perl, redis-cli, swift or kotlin, or describe it in \"repl_config\""),
      "unknown_interpreter");
}

std::optional<std::string> interpreter_alias(const guest::ProcessInfo& process) {
  if (const auto language = language_of(process)) {
    return std::string{language->alias};
  }
  if (auto definition = repl_of(process)) {
    return std::move(definition->alias);
  }
  return std::nullopt;
}

Task<Context> Interpreters::create_on_terminal(SandboxRef sandbox, ReplDefinition definition,
                                               ContextRequest request) {
  request.label = repl_label(definition);
  request.pty_driven = true;
  if (!request.pty) {
    request.pty = guest::PtySize{.rows = kReplRows, .columns = kReplColumns};
  }
  for (const auto& [name, value] : definition.env) {
    request.env.insert_or_assign(name, value);
  }
  request.env.emplace("TERM", "dumb");
  Result<Contexts::Started> started = fail(not_in_image(definition));
  for (const auto& candidate : definition.candidates) {
    request.command = candidate.arguments;
    request.command.insert(request.command.begin(), candidate.program);
    auto tried = co_await contexts_.start(sandbox, request);
    if (tried || tried.error().reason != "command_not_found") {
      started = std::move(tried);
      break;
    }
  }
  if (!started) {
    co_return fail(std::move(started).error());
  }
  auto ready = co_await await_ready_on_terminal(*started->stream, definition);
  if (!ready) {
    (void)co_await shielded(
        contexts_.remove(std::move(sandbox), started->context.process.process_id));
    co_return fail(std::move(ready).error());
  }
  co_return std::move(started->context);
}

Task<> Interpreters::await_ready_on_terminal(ProcessStream& stream,
                                             const ReplDefinition& definition) {
  TerminalExecution start{budget_, definition, true};
  auto ready = co_await with_deadline(kInterpreterStartTimeout, start.await_ready(stream));
  if (!ready && is_deadline(ready.error())) {
    auto printed = start.take().combined;
    co_return fail(Code::kDeadlineExceeded,
                   concat("the REPL did not become ready in time; it printed: ",
                          to_valid_utf8(trim(std::string_view{printed}.substr(0, kMaxShownBytes)))),
                   "interpreter_failed");
  }
  co_return std::move(ready);
}

Task<InterpreterResult> Interpreters::execute_on_terminal(SandboxRef sandbox,
                                                          DescribedStream attached,
                                                          const ReplDefinition& definition,
                                                          std::string code, Instant deadline,
                                                          const OutputSink& sink) {
  std::string id = attached.process.process_id;
  const std::string key = key_of(sandbox, id);
  TerminalExecution execution{budget_, definition, !sink};
  auto outcome = co_await follow_on_terminal(std::move(sandbox), std::move(id), *attached.stream,
                                             execution, std::move(code), deadline, sink);
  if (!execution.done() && !execution.ended()) {
    note_unfinished(key, {{}, std::max(attached.process.output_bytes, execution.end_offset())});
  }
  if (!outcome) {
    co_return fail(std::move(outcome).error());
  }
  const bool ended = execution.ended();
  auto result = execution.take();
  if (*outcome != Outcome::kCompleted && !ended) {
    result.outcome = *outcome;
    result.status = ExecutionStatus::kInterrupted;
  }
  co_return std::move(result);
}

// At the deadline interrupts, and takes what still comes.
Task<Outcome> Interpreters::follow_on_terminal(SandboxRef sandbox, std::string id,
                                               ProcessStream& stream, TerminalExecution& execution,
                                               std::string code, Instant deadline,
                                               const OutputSink& sink) {
  Loop& loop = *(co_await current_context()).loop;
  auto ran =
      co_await with_deadline(deadline - loop.now(), execution.run(stream, std::move(code), sink));
  if (ran) {
    co_return Outcome::kCompleted;
  }
  if (is_deadline(ran.error())) {
    (void)co_await contexts_.signal(std::move(sandbox), std::move(id), SIGINT);
    auto rest = co_await with_deadline(kInterruptGrace, execution.read_on(stream, sink));
    if (!rest && rest.error().code == Code::kCancelled) {
      co_return fail(std::move(rest).error());
    }
    co_return Outcome::kTimedOut;
  }
  if (ran.error().reason == "guest_lost" || ran.error().reason == "guest_timeout") {
    co_return Outcome::kLost;
  }
  co_return fail(std::move(ran).error());
}

// What the earlier code still prints is not ours, nor is its prompt.
Task<> Interpreters::read_to_prompt(ProcessStream& stream, const ReplDefinition& definition) {
  TerminalExecution earlier{budget_, definition, false};
  co_return co_await earlier.read_on(stream, {});
}

Task<> Interpreters::resize(SandboxRef sandbox, std::string id, guest::PtySize size) {
  CO_TRY(const auto attached, co_await contexts_.follow_from_now(sandbox, id));
  if (!language_of(attached.process)) {
    co_return co_await contexts_.resize(std::move(sandbox), std::move(id), size);
  }
  CO_TRY_DO(check_driver(attached.process));
  co_return co_await attached.stream->send_channel(
      concat("resize ", size.rows, " ", size.columns, "\n"));
}

}  // namespace atl::control
