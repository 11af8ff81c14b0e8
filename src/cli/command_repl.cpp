// `atoll repl`: an interpreter in a sandbox, for a person or for code that is piped in.
#include <csignal>

#include "base/scope.h"
#include "base/strings.h"
#include "cli/attached_process.h"
#include "cli/commands.h"
#include "cli/continuation.h"
#include "cli/interrupts.h"
#include "cli/line_editor.h"
#include "cli/repl_session.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxPipedBytes = 64UL << 20;
constexpr int kImpatience = 3;  // interrupts of one piece of code until we stop waiting

Json interpreter_body(const ReplOptions& options) {
  Json body = context_body(options.process, false);
  Json plain =
      Json::object({{"type", "repl"}, {"repl", Json::object({{"alias", options.language}})}});
  for (const auto& [name, value] : *body.as_object()) {
    if (name == "cwd" || name == "user" || name == "env_vars") {
      plain.set(name, value);
    }
  }
  return plain;
}

struct Prompts {
  std::string_view first;
  std::string_view more;
};

Prompts prompts_of(std::string_view language) {
  if (language == "bash" || language == "sh") {
    return {"$ ", "> "};
  }
  return language.starts_with("python") ? Prompts{">>> ", "... "} : Prompts{"> ", "... "};
}

class Repl {
 public:
  Repl(CommandContext& context, const ReplOptions& options, std::string sandbox_id)
      : context_(context),
        options_(options),
        sandbox_id_(std::move(sandbox_id)),
        api_(context.reactor, context.endpoint) {}

  Task<int> run() {
    TaskContext& outer = co_await current_context();
    CancelState give_up{outer.cancel};
    TaskContext inner{outer.loop, &give_up};
    Scope beside{outer};
    beside.spawn("signals", watch_signals(give_up, beside));
    auto status = co_await work().under(inner);
    (void)co_await leave_nothing();
    (void)co_await beside.cancel_and_join();
    if (!status && signal_ != 0) {
      co_return 128 + signal_;
    }
    co_return std::move(status);
  }

 private:
  Task<int> work() {
    CO_TRY(const auto started,
           co_await api_.call("POST", concat(sandbox_path(sandbox_id_), "/contexts"),
                              interpreter_body(options_)));
    context_id_ = text_member(started, "id");
    ReplSession session{context_,
                        {.sandbox_id = sandbox_id_,
                         .context_id = context_id_,
                         .language = options_.language,
                         .image_directory = options_.image_directory}};
    CO_TRY_DO(session.open_outputs());
    session_ = &session;
    auto terminal = Terminal::open(context_.console, {});
    Result<int> status = 0;
    if (terminal) {
      status = co_await converse(**terminal);
    } else {
      status = co_await run_piped();
    }
    session_ = nullptr;
    co_return std::move(status);
  }

  // Code from a pipe is one piece. Its error is our status.
  Task<int> run_piped() {
    CO_TRY(auto code, co_await read_input());
    const Duration limit = options_.process.timeout_ms > 0
                               ? Duration{std::chrono::milliseconds{options_.process.timeout_ms}}
                               : Duration{std::chrono::hours{24 * 366}};
    if (context_.options.json) {
      co_return co_await run_for_json(std::move(code), limit);
    }
    auto end = co_await with_deadline(limit, session_->run(std::move(code)));
    if (!end && end.error().code == Code::kDeadlineExceeded && end.error().reason.empty()) {
      (void)co_await session_->interrupt();
      context_.console.report("the code ran into its --timeout and was interrupted");
      co_return kTimeoutStatus;
    }
    if (!end) {
      co_return fail(std::move(end).error());
    }
    if (end->exit) {
      co_return end->exit->status();
    }
    co_return end->status == "ok" ? 0 : end->status == "interrupted" ? kInterruptedStatus : 1;
  }

  Task<int> run_for_json(std::string code, Duration limit) {
    Json body = Json::object({{"data", to_valid_utf8(code)}});
    if (options_.process.timeout_ms > 0) {
      body.set("timeout_ms", options_.process.timeout_ms);
    }
    CO_TRY(auto answer, co_await api_.call("POST", context_path(sandbox_id_, context_id_, "/exec"),
                                           std::move(body), limit + kCallDeadline));
    context_.console.print(answer.dump_pretty() + "\n");
    if (text_member(answer, "outcome") == "timed_out") {
      co_return kTimeoutStatus;
    }
    co_return text_member(answer, "status") == "ok" ? 0 : 1;
  }

  Task<std::string> read_input() {
    CO_TRY(auto reader, SharedReader::open(context_.reactor, context_.console.input()));
    std::string code;
    std::vector<char> buffer(kCopyBufferBytes);
    for (;;) {
      CO_TRY(const auto got, co_await reader->read(buffer));
      if (got == 0) {
        co_return code;
      }
      code.append(buffer.data(), got);
      if (code.size() > kMaxPipedBytes) {
        co_return fail(Code::kInvalidArgument, "the code on standard input is too long");
      }
    }
  }

  // Until Ctrl-D or the end of the interpreter.
  Task<int> converse(Terminal& terminal) {
    CO_TRY(reader_, SharedReader::open(context_.reactor, context_.console.input()));
    if (!context_.options.quiet) {
      context_.console.complain(concat(printable(options_.language), " in ", printable(sandbox_id_),
                                       "; Ctrl-C interrupts, Ctrl-D ends\n"));
    }
    for (;;) {
      CO_TRY(auto code, co_await read_cell(terminal));
      if (!code) {
        co_return 0;
      }
      if (trim(*code).empty()) {
        continue;
      }
      interrupts_ = 0;
      CO_TRY(const auto end, co_await session_->run(*std::move(code)));
      if (end.exit) {
        co_return end.exit->status();
      }
    }
  }

  // nullopt: Ctrl-D.
  Task<std::optional<std::string>> read_cell(Terminal& terminal) {
    const auto prompts = prompts_of(options_.language);
    std::string code;
    for (bool first = true;; first = false) {
      CO_TRY(const auto outcome,
             co_await read_line(terminal, first ? prompts.first : prompts.more));
      if (outcome == LineEditor::Outcome::kInterrupt) {
        co_return std::string{};
      }
      if (outcome == LineEditor::Outcome::kEnd) {
        co_return first ? std::nullopt : std::optional{std::string{}};
      }
      code += concat(first ? "" : "\n", editor_.take());
      if (!wants_more_lines(options_.language, code)) {
        co_return code;
      }
    }
  }

  Task<LineEditor::Outcome> read_line(Terminal& terminal, std::string_view prompt) {
    std::vector<char> buffer(kInputChunkBytes);
    CO_TRY_DO(terminal.make_raw());
    context_.console.print(editor_.begin(std::string{prompt}, terminal.size().columns));
    for (;;) {
      if (keys_.empty()) {
        CO_TRY(const auto got, co_await reader_->read(buffer));
        if (got == 0) {
          co_return LineEditor::Outcome::kEnd;
        }
        keys_.assign(buffer.data(), got);
      }
      editor_.resize(terminal.size().columns);
      const auto step = editor_.feed(keys_);
      keys_.erase(0, step.taken);
      context_.console.print(step.screen);
      if (step.outcome != LineEditor::Outcome::kNone) {
        CO_TRY_DO(terminal.make_quiet());  // what is typed while code runs is for the next prompt
        co_return step.outcome;
      }
    }
  }

  // Ctrl-C is a signal only while code runs: the prompt reads it as a key.
  Task<> watch_signals(CancelState& give_up, Scope& scope) {
    for (;;) {
      CO_TRY(const int signal, co_await context_.signals.next());
      const bool busy = session_ != nullptr && session_->running();
      if (signal == SIGINT && busy && ++interrupts_ < kImpatience) {
        scope.spawn("interrupt", interrupt());
      } else {
        signal_ = signal;
        give_up.cancel();
      }
    }
  }

  Task<> interrupt() {
    auto done = co_await session_->interrupt();
    if (!done && done.error().code != Code::kCancelled) {
      context_.console.report(
          concat("the interrupt did not reach the code: ", done.error().message),
          "another Ctrl-C or two stop waiting for it");
    }
    co_return ok();
  }

  Task<> leave_nothing() {
    // After a signal there is no time to lose, but a sandbox of ours still has to go.
    if (options_.id.empty() && !options_.keep) {
      (void)co_await shielded(with_deadline(kCleanupDeadline, delete_sandbox(api_, sandbox_id_)));
    } else {
      if (options_.id.empty()) {
        context_.console.complain(concat(printable(sandbox_id_), "\n"));
      }
      if (!context_id_.empty()) {
        (void)co_await shielded(with_deadline(
            kCleanupDeadline, api_.call("DELETE", context_path(sandbox_id_, context_id_))));
      }
    }
    co_return ok();
  }

  CommandContext& context_;
  const ReplOptions& options_;
  std::string sandbox_id_;
  std::string context_id_;
  Api api_;
  ReplSession* session_ = nullptr;
  LineEditor editor_;
  std::unique_ptr<SharedReader> reader_;
  std::string keys_;  // typed ahead
  int interrupts_ = 0;
  int signal_ = 0;
};

}  // namespace

Task<int> command_repl(CommandContext& context, const ReplOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(auto sandbox_id, co_await resolve_sandbox(api, options.id));
  if (sandbox_id.empty()) {
    CO_TRY(auto created, co_await create_for_session(context, options.sandbox));
    if (!created) {
      co_return kInterruptedStatus;
    }
    sandbox_id = created->id;
  }
  Repl repl{context, options, std::move(sandbox_id)};
  co_return co_await repl.run();
}

}  // namespace atl::cli
