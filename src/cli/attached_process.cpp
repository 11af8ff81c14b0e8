#include "cli/attached_process.h"

#include <sys/stat.h>

#include <array>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/fair_turn.h"
#include "cli/progress.h"

namespace atl::cli {
namespace {

constexpr std::size_t kReadBufferBytes = 64UL << 10;
constexpr std::chrono::milliseconds kReconnectDelay{200};

}  // namespace

Json context_body(const ProcessOptions& options, bool forward_input) {
  Json command = Json::array();
  for (const auto& word : options.argv) {
    command.push(word);
  }
  Json body =
      Json::object({{"type", "cmd"}, {"cmd", Json::object({{"command", std::move(command)}})}});
  if (!options.cwd.empty()) {
    body.set("cwd", options.cwd);
  }
  if (!options.user.empty()) {
    body.set("user", options.user);
  }
  if (!options.env.empty()) {
    Json variables = Json::object();
    for (const auto& [name, value] : options.env) {
      variables.set(name, value);
    }
    body.set("env_vars", std::move(variables));
  }
  if (options.timeout_ms > 0) {
    body.set("timeout_ms", options.timeout_ms);
  }
  if (forward_input) {
    body.set("stdin_open", true);
  }
  return body;
}

bool wants_input(const ProcessOptions& options, int input_fd) {
  if (options.interactive) {
    return true;
  }
  struct stat info{};
  return ::fstat(input_fd, &info) == 0 &&
         (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || S_ISREG(info.st_mode));
}

AttachedProcess::AttachedProcess(CommandContext& context, Interrupts& interrupts, Options options)
    : context_(context),
      interrupts_(interrupts),
      options_(std::move(options)),
      control_(context.reactor, context.endpoint),
      stream_(context.reactor, context.endpoint),
      input_(context.reactor, context.endpoint) {}

Task<ProcessResult> AttachedProcess::run() {
  const bool forward = wants_input(options_.process, context_.console.input());
  if (!context_.options.json) {
    CO_TRY(output_, SharedWriter::open(context_.reactor, context_.console.output()));
    CO_TRY(error_, SharedWriter::open(context_.reactor, context_.console.error()));
  }
  CO_TRY_DO(co_await start(forward));
  interrupts_.attach(options_.sandbox_id, context_id_);
  Scope input_scope{co_await current_context()};
  if (forward) {
    input_scope.spawn("forward input", forward_input());
  }
  auto followed = co_await follow();
  interrupts_.detach();
  (void)co_await input_scope.cancel_and_join();
  // After a second Ctrl-C the process is left alone: only its owner can say whether to kill it.
  const bool left_running = !followed && followed.error().code == Code::kCancelled;
  if (left_running && !options_.keep_context) {
    context_.console.report(concat("stopped waiting; the command goes on as ", context_id_, " in ",
                                   options_.sandbox_id));
  } else if (!options_.keep_context) {
    (void)co_await with_deadline(kCleanupDeadline, forget()).under(interrupts_.cleanup());
  }
  if (!followed) {
    co_return fail(std::move(followed).error());
  }
  co_return std::move(result_);
}

Task<> AttachedProcess::start(bool forward) {
  auto started = co_await with_progress(
      context_.console, context_.options.quiet, [] { return std::string{"starting the command"}; },
      control_.call("POST", concat(sandbox_path(options_.sandbox_id), "/contexts"),
                    context_body(options_.process, forward)));
  if (!started) {
    co_return fail(std::move(started).error());
  }
  context_id_ = text_member(*started, "id");
  if (context_id_.empty()) {
    co_return fail(Code::kInternal, "the server started the command but did not say its id");
  }
  co_return ok();
}

Task<> AttachedProcess::follow() {
  for (int broken = 0;;) {
    progressed_ = false;
    auto ended = co_await follow_once();
    if (ended && *ended) {
      co_return ok();
    }
    if (!ended && ended.error().reason != kReasonTransport) {
      co_return fail(std::move(ended).error());
    }
    broken = progressed_ ? 1 : broken + 1;
    if (broken > kMaxReconnects) {
      co_return fail(ended ? Error{Code::kUnavailable, "the server ended the output stream early",
                                   kReasonTransport}
                           : std::move(ended).error());
    }
    CO_TRY_DO(co_await sleep_for(kReconnectDelay * (1 << broken)));
  }
}

Task<bool> AttachedProcess::follow_once() {
  CO_TRY(auto response,
         co_await stream_.open(concat(
             context_path(options_.sandbox_id, context_id_, "/stream?from="), next_offset_)));
  EventDecoder decoder;
  std::vector<char> buffer(kReadBufferBytes);
  FairTurn turn;
  for (;;) {
    CO_TRY_DO(co_await turn.step());
    auto got = co_await response->body().read(buffer);
    if (!got) {
      co_return fail(transport_error(std::move(got).error(), context_.endpoint));
    }
    if (*got == 0) {
      co_return false;
    }
    CO_TRY(auto events, decoder.feed({buffer.data(), *got}));
    for (auto& event : events) {
      progressed_ = true;
      if (auto* exit = std::get_if<ExitEvent>(&event)) {
        result_.exit = std::move(*exit);
        co_return true;
      }
      CO_TRY_DO(co_await take_output(std::move(std::get<OutputEvent>(event))));
    }
  }
}

Task<> AttachedProcess::take_output(OutputEvent event) {
  std::string_view bytes = event.data;
  if (event.offset > next_offset_) {
    context_.console.report(concat(event.offset - next_offset_,
                                   " bytes of output were lost while the connection was broken"));
  } else {  // what we have already seen before a reconnect
    bytes.remove_prefix(std::min<std::uint64_t>(next_offset_ - event.offset, bytes.size()));
  }
  next_offset_ = std::max(next_offset_, event.offset + event.data.size());
  if (context_.options.json) {
    capture(event.to_error ? result_.error : result_.output, bytes);
    co_return ok();
  }
  co_return co_await (event.to_error ? error_ : output_)->write(bytes);
}

void AttachedProcess::capture(std::string& into, std::string_view bytes) {
  const auto room = kMaxCapturedBytes - into.size();
  result_.truncated = result_.truncated || bytes.size() > room;
  into += bytes.substr(0, room);
}

Task<> AttachedProcess::forward_input() {
  auto reader = SharedReader::open(context_.reactor, context_.console.input());
  Result<> outcome;
  std::vector<char> buffer(kInputChunkBytes);
  for (bool ended = !reader; !ended && outcome;) {
    auto got = co_await (*reader)->read(buffer);
    if (!got) {
      outcome = fail(std::move(got).error());
      break;
    }
    ended = *got == 0;
    outcome = co_await send_input({buffer.data(), *got}, ended);
  }
  if (!reader) {  // for example a closed standard input
    outcome = co_await send_input({}, true);
  }
  if (!outcome && outcome.error().code != Code::kCancelled && !process_is_gone(outcome.error())) {
    context_.console.report(concat("forwarding standard input: ", outcome.error().message));
  }
  co_return ok();
}

Task<> AttachedProcess::send_input(std::string_view bytes, bool end) {
  Json body = Json::object({{"data_base64", base64_encode(bytes)}});
  if (end) {
    body.set("eof", true);
  }
  // A command may take its time to read: no deadline of ours, its exit cancels us.
  constexpr auto kForAsLongAsItRuns = std::chrono::hours{24 * 366};
  CO_TRY_DO(co_await input_.call("POST", context_path(options_.sandbox_id, context_id_, "/input"),
                                 std::move(body), kForAsLongAsItRuns));
  co_return ok();
}

Task<> AttachedProcess::forget() {
  CO_TRY_DO(co_await control_.call("DELETE", context_path(options_.sandbox_id, context_id_)));
  co_return ok();
}

int conclude(CommandContext& context, const std::string& sandbox_id, const ProcessResult& result) {
  const auto& exit = result.exit;
  if (context.options.json) {
    context.console.print(
        Json::object(
            {{"sandbox_id", sandbox_id},
             {"status", exit.status()},
             {"exit_code", exit.exit_code && !exit.signal ? Json{*exit.exit_code} : Json{}},
             {"signal", exit.signal ? Json{signal_name(*exit.signal)} : Json{}},
             {"timed_out", exit.timed_out},
             {"stdout", to_valid_utf8(result.output)},
             {"stderr", to_valid_utf8(result.error)},
             {"truncated", result.truncated}})
            .dump_pretty() +
        "\n");
  } else if (exit.timed_out && !context.options.quiet) {
    context.console.report("the command ran into its --timeout and was killed");
  }
  return exit.status();
}

}  // namespace atl::cli
