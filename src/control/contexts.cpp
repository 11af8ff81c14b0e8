#include "control/contexts.h"

#include <algorithm>
#include <array>

#include "base/random.h"
#include "base/strings.h"
#include "base/trace.h"
#include "control/interpreter.h"
#include "control/limits.h"

namespace atl::control {
namespace {

struct SignalName {
  std::string_view name;
  std::uint32_t number;
};
constexpr std::array<SignalName, 18> kSignals{{{"HUP", 1},
                                               {"INT", 2},
                                               {"QUIT", 3},
                                               {"ILL", 4},
                                               {"TRAP", 5},
                                               {"ABRT", 6},
                                               {"BUS", 7},
                                               {"FPE", 8},
                                               {"KILL", 9},
                                               {"USR1", 10},
                                               {"SEGV", 11},
                                               {"USR2", 12},
                                               {"PIPE", 13},
                                               {"ALRM", 14},
                                               {"TERM", 15},
                                               {"CONT", 18},
                                               {"STOP", 19},
                                               {"WINCH", 28}}};

// Empty: the base itself.
std::string absolute_path(const std::string& path, const std::string& base) {
  if (path.empty() || path.starts_with('/') || path == "~" || path.starts_with("~/")) {
    return path.empty() ? base : path;
  }
  return concat(base == "/" ? "" : base, "/", path);
}

std::vector<std::string> merge_env(const StringMap& sandbox, const StringMap& own) {
  StringMap merged = own;
  merged.insert(sandbox.begin(), sandbox.end());
  std::vector<std::string> env;
  for (const auto& [name, value] : merged) {
    env.push_back(concat(name, "=", value));
  }
  return env;
}

// Input that nobody reads any more is no error of the caller's.
Task<> feed(ProcessStream& stream, std::string_view bytes, bool end) {
  auto sent = co_await stream.send_input(bytes);
  if (sent && end) {
    sent = co_await stream.end_input();
  }
  co_return ok();
}

void ignore_errors(const char*, const Error&) {}

Task<> send_and_sync(ProcessStream& stream, std::string_view bytes, bool end) {
  CO_TRY_DO(co_await stream.send_input(bytes));
  if (end) {
    CO_TRY_DO(co_await stream.end_input());
  }
  co_return co_await stream.sync();
}

// Returns when the guest has taken the input: the next call's input, which comes over another
// connection, cannot overtake it.
Task<> feed_in_order(ProcessStream& stream, std::string_view bytes, bool end) {
  Scope sending{co_await current_context()};
  sending.on_error(ignore_errors);
  sending.spawn("send", send_and_sync(stream, bytes, end));
  auto taken = co_await with_deadline(kGuestStallTimeout, stream.drain_until_synced());
  (void)co_await sending.cancel_and_join();
  co_return std::move(taken);
}

std::unexpected<Error> no_context(std::string_view id) {
  return fail(Code::kNotFound, concat("there is no context \"", to_valid_utf8(id), "\""),
              "process_not_found");
}

Task<> wait_for_ever() {
  Event never;
  co_return co_await never.wait();
}

}  // namespace

Contexts::Contexts(io::Reactor& reactor, Sandboxes& sandboxes, const WallClock& clock)
    : reactor_(reactor),
      sandboxes_(sandboxes),
      clock_(clock),
      interpreters_(std::make_unique<Interpreters>(*this)) {}
Contexts::~Contexts() = default;

Result<std::uint32_t> parse_signal(std::string_view text) {
  if (const auto number = parse_u64(text); number && *number >= 1 && *number <= 64) {
    return static_cast<std::uint32_t>(*number);
  }
  std::string_view name = text;
  if (name.size() > 3 && equals_ignore_case(name.substr(0, 3), "SIG")) {
    name.remove_prefix(3);
  }
  for (const auto& row : kSignals) {
    if (equals_ignore_case(row.name, name)) {
      return row.number;
    }
  }
  return fail(Code::kInvalidArgument,
              concat("\"", to_valid_utf8(text),
                     "\" is not a signal; use a name such as TERM or SIGKILL, or 1 to 64"));
}

Task<> Contexts::run() {
  Scope scope{co_await current_context()};
  scope.on_error(ignore_errors);
  background_ = &scope;
  auto ended = co_await wait_for_ever();
  background_ = nullptr;
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

const TemplateDefaults& Contexts::defaults(const SandboxRef& sandbox) const {
  const auto row = sandboxes_.get(sandbox.team_id, sandbox.sandbox_id);
  return sandboxes_.templates().defaults(
      row ? std::string_view{row->template_name} : std::string_view{}, sandbox.team_id);
}

Result<> Contexts::check_sandbox(const SandboxRef& sandbox) const {
  TRY_DO(sandboxes_.get(sandbox.team_id, sandbox.sandbox_id));
  return {};
}

Task<GuestClient> Contexts::guest(SandboxRef sandbox) {
  CO_TRY(auto running,
         co_await sandboxes_.running(std::move(sandbox.team_id), std::move(sandbox.sandbox_id)));
  co_return GuestClient{reactor_, std::move(running.guest_socket)};
}

Task<Contexts::Started> Contexts::start(SandboxRef sandbox, const ContextRequest& request) {
  co_await trace_as(Operation::kExec);
  CO_TRY_DO(validate_env(request.env, "env_vars"));
  CO_TRY(auto running, co_await sandboxes_.running(sandbox.team_id, sandbox.sandbox_id));
  co_await mark(Step::kReady);
  guest::SpawnRequest spawn{
      .process_id = request.id.empty() ? concat("ctx-", random_hex(8)) : request.id,
      .argv = request.command,
      .env = merge_env(running.env, request.env),
      .cwd = absolute_path(request.cwd, running.cwd),
      .user = request.user.empty() ? running.user : request.user,
      .stdin_open = request.input.has_value() || request.keep_input_open,
      .pty = request.pty,
      .timeout_ms = request.timeout_ms,
      .keep = true,
      .channel = request.channel,
      .idle_timeout_ms = request.idle_timeout_ms,
      .pty_driven = request.pty_driven,
      .label = request.label,
      .forget_after_ms = request.forget_after_ms};
  Started started;
  auto& process = started.context.process;
  process.process_id = spawn.process_id;
  process.argv = spawn.argv;
  process.cwd = spawn.cwd;
  process.user = spawn.user;
  process.keep = true;
  process.pty = spawn.pty.has_value();
  process.running = true;
  process.has_channel = spawn.channel;
  process.label = spawn.label;
  process.started_unix_ms = clock_.now();
  const GuestClient client{reactor_, std::move(running.guest_socket)};
  CO_TRY(started.stream, co_await client.spawn(std::move(spawn)));
  process.pid = started.stream->pid();
  if (request.forget_after_ms == 0) {  // nobody is to start it again
    remember(sandbox, process.process_id, request);
  }
  co_return std::move(started);
}

Task<Context> Contexts::create(SandboxRef sandbox, ContextRequest request) {
  if (request.input && (background_ == nullptr || background_->running() >= kMaxBackgroundInputs)) {
    co_return fail(Code::kUnavailable, "too many inputs are being written; try again later");
  }
  CO_TRY(auto started, co_await start(std::move(sandbox), request));
  if (request.input && background_ != nullptr) {
    background_->spawn("input",
                       feed_in_background(std::move(started.stream), *std::move(request.input),
                                          !request.keep_input_open));
  }
  co_return std::move(started.context);
}

Task<> Contexts::feed_in_background(std::unique_ptr<ProcessStream> stream, std::string bytes,
                                    bool end) {
  // A connected reader that does not read would stop the process, and with it our input; one that
  // reads and drops would take the output from whoever comes for it.
  CO_TRY_DO(co_await stream->input_only());
  co_return co_await feed(*stream, bytes, end);
}

Task<Context> Contexts::create_and_wait(SandboxRef sandbox, ContextRequest request) {
  CO_TRY(auto started, co_await start(std::move(sandbox), request));
  Scope feeding{co_await current_context()};
  if (request.input) {
    feeding.spawn("input", feed(*started.stream, *request.input, !request.keep_input_open));
  }
  auto output = co_await collect_until(*started.stream, UINT64_MAX, started.context.process);
  (void)co_await feeding.cancel_and_join();
  if (!output) {
    co_return fail(
        std::move(output).error().note(concat("waiting for ", started.context.process.process_id)));
  }
  started.context.output = *std::move(output);
  co_return std::move(started.context);
}

Task<Contexts::Started> Contexts::create_and_follow(SandboxRef sandbox, ContextRequest request) {
  co_return co_await start(std::move(sandbox), request);
}

// Reads until the exit, or until everything before `end_offset` has been seen.
Task<CapturedOutput> Contexts::collect_until(ProcessStream& stream, std::uint64_t end_offset,
                                             guest::ProcessInfo& process) {
  Capture standard_output{budget_};
  Capture standard_error{budget_};
  Capture combined{budget_};
  std::uint64_t seen = 0;
  while (seen < end_offset) {
    CO_TRY(const auto event, co_await stream.next());
    if (const auto* status = std::get_if<guest::ExitStatus>(&event)) {
      co_await mark(Step::kExit);
      process.running = false;
      process.exit = *status;
      break;
    }
    const auto& output = std::get<guest::Output>(event);
    if (seen == 0) {
      co_await mark(Step::kOutput);
    }
    if (output.header.offset > seen) {
      combined.mark_truncated();  // the guest no longer had what came before
    }
    seen = std::max(seen, output.header.offset + output.bytes.size());
    if (output.header.stream == guest::Stream::kChannel) {
      continue;
    }
    combined.append(output.bytes);
    if (output.header.stream == guest::Stream::kStdout) {
      standard_output.append(output.bytes);
    } else if (output.header.stream == guest::Stream::kStderr) {
      standard_error.append(output.bytes);
    }
  }
  const bool truncated =
      standard_output.truncated() || standard_error.truncated() || combined.truncated();
  co_return CapturedOutput{standard_output.take(), standard_error.take(), combined.take(),
                           truncated};
}

Task<guest::ProcessInfo> Contexts::find_process(GuestClient client, std::string id) {
  auto process = co_await client.get_process(id);
  if (process && process->keep) {
    co_return std::move(process);
  }
  if (!process && process.error().code != Code::kNotFound &&
      process.error().code != Code::kInvalidArgument) {
    co_return std::move(process);
  }
  co_return no_context(id);
}

Task<guest::ProcessInfo> Contexts::find_running(GuestClient client, std::string id) {
  CO_TRY(auto process, co_await find_process(std::move(client), id));
  if (!process.running) {
    co_return fail(Code::kFailedPrecondition, concat("context ", id, " has already ended"),
                   "process_ended");
  }
  co_return std::move(process);
}

Task<std::vector<Context>> Contexts::list(SandboxRef sandbox) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  CO_TRY(auto processes, co_await client.list_processes());
  std::vector<Context> contexts;
  for (auto& process : processes) {
    if (process.keep) {
      contexts.push_back(Context{.process = std::move(process)});
    }
  }
  co_return std::move(contexts);
}

Task<Context> Contexts::get(SandboxRef sandbox, std::string id) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  Context context;
  CO_TRY(context.process, co_await find_process(client, id));
  CO_TRY(const auto stream, co_await client.attach({.process_id = std::move(id)}));
  // Of a finished process everything up to its exit; of a running one what there was when asked.
  const std::uint64_t end = context.process.running ? context.process.output_bytes : UINT64_MAX;
  CO_TRY(context.output,
         co_await with_deadline(kGuestStallTimeout, collect_until(*stream, end, context.process)));
  co_return std::move(context);
}

Task<> Contexts::remove(SandboxRef sandbox, std::string id) {
  CO_TRY(const auto client, co_await guest(sandbox));
  forget(sandbox, id);
  co_return co_await client.remove_process(std::move(id));
}

Task<> Contexts::signal(SandboxRef sandbox, std::string id, std::uint32_t number) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  co_return co_await client.signal_process({.process_id = std::move(id), .signal = number});
}

Task<> Contexts::input(SandboxRef sandbox, std::string id, std::string bytes, bool end) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  CO_TRY_DO(co_await find_running(client, id));
  CO_TRY(const auto stream,
         co_await client.attach({.process_id = std::move(id), .from_offset = UINT64_MAX}));
  auto sent = co_await feed_in_order(*stream, bytes, end);
  if (!sent && sent.error().code == Code::kDeadlineExceeded) {
    co_return fail(Code::kFailedPrecondition, "the process does not read its input",
                   "input_buffer_full");
  }
  co_return std::move(sent);
}

Task<> Contexts::resize(SandboxRef sandbox, std::string id, guest::PtySize size) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  CO_TRY(const auto process, co_await find_running(client, id));
  if (!process.pty) {
    co_return fail(Code::kFailedPrecondition, concat("context ", id, " has no terminal"),
                   "pty_unavailable");
  }
  CO_TRY(const auto stream,
         co_await client.attach({.process_id = std::move(id), .from_offset = UINT64_MAX}));
  co_return co_await stream->resize(size);
}

Task<std::unique_ptr<ProcessStream>> Contexts::follow(SandboxRef sandbox, std::string id,
                                                      std::uint64_t from_offset) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  co_return co_await client.attach({.process_id = std::move(id), .from_offset = from_offset});
}

Task<DescribedStream> Contexts::follow_from_now(SandboxRef sandbox, std::string id,
                                                std::string channel_bytes) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  auto followed = co_await client.attach_to_end(id, std::move(channel_bytes));
  if (followed ? !followed->process.keep
               : followed.error().code == Code::kNotFound ||
                     followed.error().code == Code::kInvalidArgument) {
    co_return no_context(id);
  }
  co_return std::move(followed);
}

}  // namespace atl::control
