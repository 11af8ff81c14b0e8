// Interpreters, the part for REPLs on a terminal, and what they have in common with drivers.
#include <algorithm>
#include <csignal>

#include "base/strings.h"
#include "control/interpreter.h"
#include "control/limits.h"

namespace atl::control {
namespace {

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
             "\"; use python, javascript, typescript, bash, r, java, zsh, ruby, lua, sqlite, "
             "php, perl, redis-cli, swift or kotlin, or describe it in \"repl_config\""),
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

Task<InterpreterResult> Interpreters::execute_on_terminal(SandboxRef sandbox, GuestClient client,
                                                          DescribedStream attached,
                                                          const ReplDefinition& definition,
                                                          const CodeRequest& request,
                                                          Instant deadline) {
  if (!request.env.empty()) {
    co_return fail(Code::kInvalidArgument,
                   concat("the interpreter \"", to_valid_utf8(definition.alias),
                          "\" takes no environment for a piece of code, only when it is made"));
  }
  const std::string key = context_key(sandbox, attached.process.process_id);
  TerminalExecution execution{budget_, definition, !request.output};
  auto outcome = co_await follow_on_terminal(client, attached, execution, request, deadline);
  if (!execution.done() && !execution.ended()) {
    bool owes = outcome && outcome->owes_interrupt;
    if (!outcome && request.interrupt_when_cancelled) {
      CO_TRY(owes, co_await shielded(interrupt_abandoned(client, attached.process)));
    }
    note_unfinished(key,
                    {{}, std::max(attached.process.output_bytes, execution.end_offset()), owes});
  }
  if (!outcome) {
    co_return fail(std::move(outcome).error());
  }
  const bool ended = execution.ended();
  auto result = execution.take();
  if (outcome->outcome != Outcome::kCompleted && !ended) {
    result.outcome = outcome->outcome;
    result.status = ExecutionStatus::kInterrupted;
  }
  co_return std::move(result);
}

// At the deadline interrupts, and takes what still comes.
Task<Interpreters::Followed> Interpreters::follow_on_terminal(GuestClient client,
                                                              const DescribedStream& attached,
                                                              TerminalExecution& execution,
                                                              const CodeRequest& request,
                                                              Instant deadline) {
  ProcessStream& stream = *attached.stream;
  Loop& loop = *(co_await current_context()).loop;
  auto ran = co_await with_deadline(deadline - loop.now(),
                                    execution.run(stream, request.code, request.output));
  if (ran) {
    co_return Followed{Outcome::kCompleted};
  }
  if (is_deadline(ran.error())) {
    const auto interrupted =
        co_await with_deadline(kInterruptGrace, interrupt_code(client, attached.process));
    auto rest = co_await with_deadline(kInterruptGrace, execution.read_on(stream, request.output));
    if (!rest && rest.error().code == Code::kCancelled) {
      co_return fail(std::move(rest).error());
    }
    CO_TRY_DO(co_await execution.give_rest());
    co_return Followed{Outcome::kTimedOut, !interrupted};
  }
  if (ran.error().reason == "guest_lost" || ran.error().reason == "guest_timeout") {
    co_return Followed{Outcome::kLost};
  }
  co_return fail(std::move(ran).error());
}

// What the earlier code still prints is not ours, nor is its prompt.
Task<> Interpreters::read_to_prompt(ProcessStream& stream, const ReplDefinition& definition) {
  TerminalExecution earlier{budget_, definition, false};
  co_return co_await earlier.read_on(stream, {});
}

Task<> Interpreters::interrupt(SandboxRef sandbox, std::string id) {
  CO_TRY(const auto process, co_await contexts_.describe(sandbox, std::move(id)));
  if (!repl_of(process)) {
    CO_TRY_DO(check_driver(process));
  }
  CO_TRY(auto client, co_await contexts_.guest(std::move(sandbox)));
  co_return co_await interrupt_code(std::move(client), process);
}

// Asks the guest and not for the sandbox, which would resume one that was paused meanwhile.
Task<> Interpreters::interrupt_code(GuestClient client, const guest::ProcessInfo& process) {
  const auto language = language_of(process);
  if (language && language->interrupt == Interrupt::kChannel) {
    CO_TRY_DO(co_await client.attach_to_end(process.process_id, "interrupt\n"));
    co_return ok();
  }
  co_return co_await client.signal_process({.process_id = process.process_id, .signal = SIGINT});
}

// A signal that came before the code began is lost, and one that comes after its end does nothing.
Task<bool> Interpreters::interrupt_abandoned(GuestClient client,
                                             const guest::ProcessInfo& process) {
  const auto language = language_of(process);
  const auto interrupted = co_await with_deadline(kInterruptGrace, interrupt_code(client, process));
  co_return !interrupted || (language && language->interrupt == Interrupt::kSignal);
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
