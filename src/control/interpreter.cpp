#include "control/interpreter.h"

#include <algorithm>
#include <csignal>

#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

std::string exec_line(std::string_view id, std::string_view code, const StringMap& env = {}) {
  return concat("exec ", id, " ", base64_encode(code), env.empty() ? "" : " ",
                environment_words(env), "\n");
}

Task<> send_code(ProcessStream& stream, std::string line) {
  co_return co_await stream.send_channel(line);
}

// Reads until the execution or its interpreter has ended. A piece that goes to a sink goes there
// whole: a deadline waits for it.
Task<> collect(ProcessStream& stream, Transcript& transcript, const CodeRequest& request) {
  while (!transcript.done()) {
    CO_TRY(const auto event, co_await stream.next());
    if (const auto* exit = std::get_if<guest::ExitStatus>(&event)) {
      transcript.end_by(*exit);
      break;
    }
    const auto& output = std::get<guest::Output>(event);
    transcript.add(output);
    if (request.output && output.header.stream != guest::Stream::kChannel) {
      CO_TRY_DO(co_await shielded(request.output(output)));
    }
    if (request.results && output.header.stream == guest::Stream::kChannel) {
      for (RichResult& result : transcript.take_results()) {
        CO_TRY_DO(co_await shielded(request.results(std::move(result))));
      }
    }
  }
  co_return ok();
}

}  // namespace

// The right to execute, from take_turn() until destroyed; then the next in line has it.
class Interpreters::Turn {
 public:
  Turn(Interpreters& owner, std::string key) : owner_(owner), key_(std::move(key)) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    const auto found = owner_.lines_.find(key_);
    CHECK(found != owner_.lines_.end() && found->second.busy);
    if (found->second.waiting.empty()) {
      owner_.lines_.erase(found);
      return;
    }
    found->second.waiting.front()->set();
    found->second.waiting.pop_front();
  }

 private:
  Interpreters& owner_;
  const std::string key_;
};

Task<std::unique_ptr<Interpreters::Turn>> Interpreters::take_turn(std::string key) {
  Line& line = lines_[key];
  if (!line.busy) {
    line.busy = true;
    co_return std::make_unique<Turn>(*this, std::move(key));
  }
  if (line.waiting.size() >= kMaxWaitingExecutions) {
    co_return fail(Code::kResourceExhausted,
                   "too many executions wait for this context; try again later", "context_busy");
  }
  Event ours;
  line.waiting.push_back(&ours);
  auto waited = co_await ours.wait();
  if (ours.is_set()) {
    auto turn = std::make_unique<Turn>(*this, std::move(key));  // passed on when we do not want it
    if (!waited) {
      co_return fail(std::move(waited).error());
    }
    co_return std::move(turn);
  }
  std::erase(line.waiting, &ours);
  co_return fail(std::move(waited).error());
}

Task<std::shared_ptr<void>> Interpreters::hold(SandboxRef sandbox, std::string id, Duration wait) {
  CO_TRY_DO(contexts_.check_sandbox(sandbox));
  Loop& loop = *(co_await current_context()).loop;
  const Instant deadline = loop.now() + wait;
  const auto busy = [] {
    return fail(Code::kUnavailable, "code is running in it", "context_busy");
  };
  auto turn = co_await with_deadline(wait, take_turn(context_key(sandbox, id)));
  if (!turn && is_deadline(turn.error())) {
    co_return busy();
  }
  if (!turn) {
    co_return fail(std::move(turn).error());
  }
  CO_TRY(const bool free, co_await finish_earlier(sandbox, id, deadline));
  if (!free) {
    co_return busy();
  }
  co_return std::shared_ptr<void>{*std::move(turn)};
}

Result<> Interpreters::check_driver(const guest::ProcessInfo& process) {
  if (!language_of(process)) {
    return fail(Code::kFailedPrecondition,
                concat("context ", process.process_id, " is not an interpreter"),
                "not_an_interpreter");
  }
  if (!process.running) {
    return fail(Code::kFailedPrecondition,
                concat("context ", process.process_id, " has already ended"), "process_ended");
  }
  return {};
}

// One that ran into its time limit stays ended: that was asked for.
Task<> Interpreters::revive(SandboxRef sandbox, const guest::ProcessInfo& process) {
  if (!interpreter_alias(process) || process.exit.timed_out || process.exit.idle_timed_out) {
    co_return fail(Code::kFailedPrecondition,
                   concat("context ", process.process_id, " has already ended"), "process_ended");
  }
  CO_TRY_DO(co_await restart(std::move(sandbox), process.process_id));
  co_return ok();
}

Task<InterpreterResult> Interpreters::execute(SandboxRef sandbox, std::string id,
                                              CodeRequest request) {
  if (request.code.size() > kMaxCodeBytes) {
    co_return fail(Code::kInvalidArgument,
                   concat("the code has ", request.code.size(), " bytes, at most ", kMaxCodeBytes,
                          " are possible; write it to a file"));
  }
  CO_TRY_DO(validate_env(request.env, "env_vars"));
  Loop& loop = *(co_await current_context()).loop;
  const std::uint64_t limit_ms = request.timeout_ms == 0
                                     ? guest::kMaxTimeoutMs
                                     : std::min(request.timeout_ms, guest::kMaxTimeoutMs);
  const Instant deadline = loop.now() + std::chrono::milliseconds{limit_ms};
  CO_TRY_DO(contexts_.check_sandbox(sandbox));  // before anything is held under its name
  auto turn = co_await with_deadline(deadline - loop.now(), take_turn(context_key(sandbox, id)));
  if (!turn && is_deadline(turn.error())) {
    co_return InterpreterResult{.outcome = Outcome::kNeverStarted};
  }
  if (!turn) {
    co_return fail(std::move(turn).error());
  }
  co_return co_await execute_now(std::move(sandbox), std::move(id), request, deadline);
}

Task<DescribedStream> Interpreters::attach(SandboxRef sandbox, std::string id,
                                           const CodeRequest& request, const std::string& eager,
                                           bool& restarts) {
  // Not cancelled half-way: whether the code was handed over must be known.
  auto attached = co_await shielded(contexts_.follow_from_now(sandbox, id, eager));
  if (!attached && attached.error().reason == "process_not_found" && request.make) {
    InterpreterRequest make = *request.make;
    make.id = id;
    CO_TRY_DO(co_await shielded(create(sandbox, std::move(make))));
  } else if (attached && !attached->process.running) {
    restarts = true;
    CO_TRY_DO(co_await revive(sandbox, attached->process));
  } else {
    co_return std::move(attached);
  }
  co_return co_await shielded(contexts_.follow_from_now(std::move(sandbox), std::move(id), eager));
}

Task<InterpreterResult> Interpreters::execute_now(SandboxRef sandbox, std::string id,
                                                  const CodeRequest& request, Instant deadline) {
  CO_TRY(const bool free, co_await finish_earlier(sandbox, id, deadline));
  if (!free) {
    co_return InterpreterResult{.outcome = Outcome::kNeverStarted};
  }
  CO_TRY(const GuestClient client, co_await contexts_.guest(sandbox));
  const std::string execution = random_hex(16);
  std::string line = exec_line(execution, request.code, request.env);
  const std::string eager = line.size() <= kMaxEagerLineBytes ? std::exchange(line, {}) : "";
  bool restarts = false;
  CO_TRY(auto attached, co_await attach(sandbox, std::move(id), request, eager, restarts));
  Result<InterpreterResult> result;
  if (const auto definition = repl_of(attached.process)) {
    result = co_await execute_on_terminal(std::move(sandbox), client, std::move(attached),
                                          *definition, request, deadline);
  } else {
    result = co_await execute_by_driver(std::move(sandbox), client, std::move(attached), execution,
                                        std::move(line), request, deadline);
  }
  if (result) {
    result->restarted = restarts;
  }
  co_return std::move(result);
}

Task<InterpreterResult> Interpreters::execute_by_driver(SandboxRef sandbox, GuestClient client,
                                                        DescribedStream attached,
                                                        std::string execution, std::string line,
                                                        const CodeRequest& request,
                                                        Instant deadline) {
  CO_TRY_DO(check_driver(attached.process));
  const std::string key = context_key(sandbox, attached.process.process_id);
  Transcript transcript{budget_, execution, !request.output};
  // Beside the reading: an interpreter that prints and does not read must not stop both of us.
  Scope sending{co_await current_context()};
  sending.on_error([](const char*, const Error&) {});
  if (!line.empty()) {
    sending.spawn("code", send_code(*attached.stream, std::move(line)));
  }
  auto outcome = co_await follow(client, attached, transcript, request, deadline);
  (void)co_await sending.cancel_and_join();
  if (!transcript.done()) {
    bool owes = outcome && outcome->owes_interrupt;
    if (!outcome && request.interrupt_when_cancelled) {
      CO_TRY(owes, co_await shielded(interrupt_abandoned(client, attached.process)));
    }
    note_unfinished(
        key, {execution, std::max(attached.process.output_bytes, transcript.end_offset()), owes});
  }
  if (!outcome) {
    co_return fail(std::move(outcome).error());
  }
  auto result = transcript.take();
  if (outcome->outcome != Outcome::kCompleted) {
    result.outcome = outcome->outcome;
    result.status = ExecutionStatus::kInterrupted;
  }
  co_return std::move(result);
}

void Interpreters::note_unfinished(std::string key, Unfinished unfinished) {
  if (unfinished_.size() >= kMaxUnfinishedExecutions) {
    unfinished_.erase(unfinished_.begin());
  }
  unfinished_.insert_or_assign(std::move(key), std::move(unfinished));
}

// Output and channel are not ordered strictly enough to tell the two apart afterwards, so nothing
// is started before the earlier execution has said that it is done.
Task<bool> Interpreters::finish_earlier(const SandboxRef& sandbox, const std::string& id,
                                        Instant deadline) {
  const std::string key = context_key(sandbox, id);
  const auto found = unfinished_.find(key);
  if (found == unfinished_.end()) {
    co_return true;
  }
  const Unfinished earlier = found->second;
  CO_TRY(const auto process, co_await contexts_.describe(sandbox, id));
  if (process.running && earlier.owes_interrupt) {
    CO_TRY(auto client, co_await contexts_.guest(sandbox));
    CO_TRY_DO(co_await interrupt_code(std::move(client), process));
  }
  if (process.running && process.journal_first_offset <= earlier.offset) {
    CO_TRY(const auto stream, co_await contexts_.follow(sandbox, id, earlier.offset));
    Transcript transcript{budget_, earlier.execution};
    Loop& loop = *(co_await current_context()).loop;
    const CodeRequest nobody;
    const auto definition = repl_of(process);
    auto ended = co_await with_deadline(
        deadline - loop.now(),
        definition ? read_to_prompt(*stream, *definition) : collect(*stream, transcript, nobody));
    if (!ended && is_deadline(ended.error())) {
      co_return false;
    }
    CO_TRY_DO(std::move(ended));
  }
  unfinished_.erase(key);
  co_return true;
}

// Collects until the end or the deadline; at the deadline interrupts, and takes what still comes.
Task<Interpreters::Followed> Interpreters::follow(GuestClient client,
                                                  const DescribedStream& attached,
                                                  Transcript& transcript,
                                                  const CodeRequest& request, Instant deadline) {
  ProcessStream& stream = *attached.stream;
  Loop& loop = *(co_await current_context()).loop;
  auto collected =
      co_await with_deadline(deadline - loop.now(), collect(stream, transcript, request));
  if (collected) {
    co_return Followed{Outcome::kCompleted};
  }
  if (is_deadline(collected.error())) {
    const auto interrupted =
        co_await with_deadline(kInterruptGrace, interrupt_code(client, attached.process));
    auto rest = co_await with_deadline(kInterruptGrace, collect(stream, transcript, request));
    if (!rest && rest.error().code == Code::kCancelled) {
      co_return fail(std::move(rest).error());
    }
    co_return Followed{Outcome::kTimedOut, !interrupted};
  }
  if (collected.error().reason == "guest_lost" || collected.error().reason == "guest_timeout") {
    co_return Followed{Outcome::kLost};
  }
  co_return fail(std::move(collected).error());
}

Task<> Interpreters::send(SandboxRef sandbox, std::string id, std::string code) {
  if (code.size() > kMaxCodeBytes) {
    co_return fail(Code::kInvalidArgument, "the code is too long; write it to a file");
  }
  CO_TRY(auto attached, co_await contexts_.follow_from_now(sandbox, id));
  if (repl_of(attached.process)) {
    attached.stream.reset();  // or it would wait for us to read
    co_return co_await contexts_.input(std::move(sandbox), std::move(id), std::move(code), false);
  }
  CO_TRY_DO(check_driver(attached.process));
  const std::string execution = random_hex(16);
  note_unfinished(context_key(sandbox, id), {execution, attached.process.output_bytes});
  co_return co_await attached.stream->send_channel(exec_line(execution, code));
}

Task<Context> Interpreters::restart(SandboxRef sandbox, std::string id) {
  CO_TRY_DO(contexts_.check_sandbox(sandbox));
  unfinished_.erase(context_key(sandbox, id));
  CO_TRY(auto started, co_await contexts_.start_again(std::move(sandbox), std::move(id)));
  const auto language = language_of(started.context.process);
  if (language) {
    CO_TRY_DO(co_await await_driver(*started.stream, *language));
  } else if (const auto definition = repl_of(started.context.process)) {
    CO_TRY_DO(co_await await_ready_on_terminal(*started.stream, *definition));
  }
  co_return std::move(started.context);
}

}  // namespace atl::control
