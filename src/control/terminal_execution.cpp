#include "control/terminal_execution.h"

#include <algorithm>

#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

std::vector<std::string> lines_of(std::string_view code) {
  std::vector<std::string> lines;
  while (!code.empty()) {
    const auto end = code.find('\n');
    std::string_view line = code.substr(0, end);
    code.remove_prefix(end == std::string_view::npos ? code.size() : end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back(concat(line, "\n"));
  }
  if (lines.empty()) {
    lines.emplace_back("\n");
  }
  return lines;
}

// Some programs (R) take a longer line in pieces and ask for more after each.
constexpr std::size_t kMaxUncutLineBytes = 1000;

Task<> send_text(ProcessStream& stream, std::string text) {
  co_return co_await stream.send_input(text);
}

}  // namespace

bool is_deadline(const Error& error) {
  return error.code == Code::kDeadlineExceeded && error.reason.empty();
}

TerminalExecution::TerminalExecution(CaptureBudget& budget, const ReplDefinition& definition,
                                     bool keep_output)
    : definition_(definition),
      reader_(definition.ready, definition.token),
      output_(budget),
      keep_output_(keep_output) {}

Task<> TerminalExecution::run(ProcessStream& stream, std::string code, OutputSink sink) {
  sink_ = std::move(sink);
  auto lines = lines_of(code);
  if (definition_.ready == Ready::kPrompts) {
    for (auto& line : lines) {
      if (ended_) {
        break;
      }
      const bool may_be_cut = line.size() > kMaxUncutLineBytes;
      CO_TRY_DO(co_await give(stream, std::move(line), 1));
      if (may_be_cut && reader_.wants_more()) {
        CO_TRY_DO(co_await read_until_silent(stream));
      }
    }
  } else {
    std::string all;
    for (const auto& line : lines) {
      all += line;
    }
    CO_TRY_DO(co_await give(stream, std::move(all), lines.size()));
  }
  done_ = true;
  co_return ok();
}

Task<> TerminalExecution::read_on(ProcessStream& stream, OutputSink sink) {
  sink_ = std::move(sink);
  CO_TRY_DO(co_await await_answer(
      stream, definition_.ready == Ready::kPrompts ? reader_.prompts() + 1 : 1));
  done_ = true;
  co_return ok();
}

Task<> TerminalExecution::await_ready(ProcessStream& stream) {
  if (!definition_.setup.empty()) {
    CO_TRY_DO(co_await give(stream, definition_.setup + "\n", 1));
  } else {
    CO_TRY_DO(co_await await_answer(stream, 1));
  }
  if (ended_) {
    auto printed = take().combined;
    co_return fail(Code::kFailedPrecondition,
                   concat(definition_.alias, " ended instead of starting: ",
                          to_valid_utf8(trim(std::string_view{printed}.substr(0, kMaxShownBytes)))),
                   "interpreter_failed");
  }
  co_return ok();
}

// Beside the reading: a program that prints and does not read must not stop both of us.
Task<> TerminalExecution::give(ProcessStream& stream, std::string text, std::size_t prompts) {
  const std::size_t wanted = reader_.prompts() + prompts;
  Scope sending{co_await current_context()};
  sending.on_error([](const char*, const Error&) {});
  sending.spawn("line", send_text(stream, std::move(text)));
  auto answered = co_await await_answer(stream, wanted);
  (void)co_await sending.cancel_and_join();
  co_return std::move(answered);
}

// With a token of ours its number decides, unless the code has taken lines for itself: then silence
// does, as with every other token.
bool TerminalExecution::answered(std::size_t prompts) const {
  if (definition_.ready == Ready::kPrompts) {
    return reader_.prompts() >= prompts;
  }
  return definition_.own_token && reader_.at_prompt() && reader_.prompts() >= prompts;
}

Task<> TerminalExecution::await_answer(ProcessStream& stream, std::size_t prompts) {
  const std::chrono::milliseconds quiet{definition_.quiet_ms};
  while (!ended_ && !answered(prompts)) {
    const bool silence_ends = definition_.ready == Ready::kSilence ||
                              (definition_.ready == Ready::kToken && reader_.at_prompt());
    Result<ProcessStream::Event> event;
    if (silence_ends) {
      event = co_await with_deadline(quiet, stream.next());
      if (!event && is_deadline(event.error())) {
        co_return ok();
      }
    } else {
      event = co_await stream.next();
    }
    if (!event) {
      co_return fail(std::move(event).error());
    }
    CO_TRY_DO(co_await take_event(*event));
  }
  co_return ok();
}

Task<> TerminalExecution::read_until_silent(ProcessStream& stream) {
  const std::chrono::milliseconds quiet{definition_.quiet_ms};
  while (!ended_) {
    auto event = co_await with_deadline(quiet, stream.next());
    if (!event && is_deadline(event.error())) {
      co_return ok();
    }
    if (!event) {
      co_return fail(std::move(event).error());
    }
    CO_TRY_DO(co_await take_event(*event));
  }
  co_return ok();
}

Task<> TerminalExecution::take_event(ProcessStream::Event event) {
  if (const auto* exit = std::get_if<guest::ExitStatus>(&event)) {
    end_by(result_, *exit);
    ended_ = true;
    co_return co_await give_rest();
  }
  const auto& output = std::get<guest::Output>(event);
  end_offset_ = std::max(end_offset_, output.header.offset + output.bytes.size());
  if (output.header.stream == guest::Stream::kChannel) {
    co_return ok();
  }
  const guest::OutputHeader header = output.header;
  last_stream_ = header.stream;
  co_return co_await keep(reader_.add(output.bytes), header);
}

Task<> TerminalExecution::give_rest() {
  std::string rest = reader_.finish();
  const guest::OutputHeader header{last_stream_, end_offset_ - rest.size()};
  co_return co_await keep(std::move(rest), header);
}

Task<> TerminalExecution::keep(std::string text, guest::OutputHeader header) {
  if (keep_output_) {
    output_.append(text);
  } else if (sink_ && !text.empty()) {
    co_return co_await shielded(sink_(guest::Output{header, text}));
  }
  co_return ok();
}

InterpreterResult TerminalExecution::take() {
  if (keep_output_) {
    output_.append(reader_.finish());
  }
  if (done_ && !ended_ && reader_.wants_more()) {
    result_.status = ExecutionStatus::kIncomplete;
  }
  result_.truncated = output_.truncated();
  result_.combined = output_.take();
  result_.standard_output = result_.combined;
  return std::move(result_);
}

}  // namespace atl::control
