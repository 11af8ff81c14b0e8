#include "service/e2b/interpreter/execution_stream.h"

#include <utility>

#include "base/json.h"
#include "service/e2b/interpreter/result_lines.h"

namespace atl::service::e2b::interpreter {
namespace {

constexpr Duration kKeepAliveInterval = std::chrono::seconds{5};
constexpr std::int64_t kNanosecondsPerMs = 1'000'000;

Task<> nothing() {
  co_return ok();
}

}  // namespace

std::string ExecutionStream::output_line(std::string_view type, std::string text) {
  return Json::object({{"type", type},
                       {"text", std::move(text)},
                       {"timestamp", clock_.now() * kNanosecondsPerMs}})
             .dump() +
         "\n";
}

Task<> ExecutionStream::send_output(const guest::Output& output) {
  const bool error = output.header.stream == guest::Stream::kStderr;
  std::string text = (error ? standard_error_ : standard_output_).add(output.bytes);
  return text.empty() ? nothing() : send(output_line(error ? "stderr" : "stdout", std::move(text)));
}

Task<> ExecutionStream::send_result(control::RichResult result) {
  return send(result_line(std::move(result)).dump() + "\n");
}

Task<> ExecutionStream::send_end(const control::InterpreterResult& result) {
  std::string lines;
  if (std::string rest = standard_output_.finish(); !rest.empty()) {
    lines += output_line("stdout", std::move(rest));
  }
  if (std::string rest = standard_error_.finish(); !rest.empty()) {
    lines += output_line("stderr", std::move(rest));
  }
  if (result.truncated) {
    lines += output_line("stderr", "some results are left out: they are too large\n");
  }
  lines += ending_lines(result);
  lines += "{\"type\":\"end_of_execution\"}\n";
  return send(std::move(lines));
}

Task<> ExecutionStream::keep_alive() {
  for (;;) {
    CO_TRY_DO(co_await sleep_for(kKeepAliveInterval));
    if (std::exchange(quiet_, true)) {
      CO_TRY_DO(co_await shielded(send("{\"type\":\"keepalive\"}\n")));
      quiet_ = true;
    }
  }
}

Task<> ExecutionStream::send(std::string lines) {
  while (busy_) {
    free_.clear();
    CO_TRY_DO(co_await free_.wait());
  }
  busy_ = true;
  Result<> sent;
  if (!exchange_.started()) {
    sent = co_await exchange_.start(
        200, {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"}},
        std::nullopt);
  }
  if (sent) {
    sent = co_await exchange_.write(lines);
  }
  busy_ = false;
  quiet_ = false;
  free_.set();
  if (!sent) {  // not as a deadline, which would be taken for one of the code
    co_return fail(Code::kCancelled, "the client does not take the output any longer");
  }
  co_return ok();
}

}  // namespace atl::service::e2b::interpreter
