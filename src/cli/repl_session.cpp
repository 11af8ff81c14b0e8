#include "cli/repl_session.h"

#include "base/scope.h"
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/fair_turn.h"

namespace atl::cli {
namespace {

constexpr std::size_t kFrameHeadBytes = 9;  // stream, offset
constexpr char kErrorStream = 2;
constexpr std::size_t kMaxCodeBytes = 1UL << 20;  // what the server takes
constexpr std::chrono::milliseconds kReconnectDelay{500};
constexpr std::string_view kEmptyCode = "\n";
constexpr std::chrono::hours kForAsLongAsItRuns{24 * 366};
constexpr std::string_view kLanguagesWithDriver[] = {"python",     "python3", "node", "javascript",
                                                     "typescript", "bash",    "sh"};

}  // namespace

ReplSession::ReplSession(CommandContext& context, Target target)
    : context_(context),
      target_(std::move(target)),
      api_(context.reactor, context.endpoint),
      control_(context.reactor, context.endpoint),
      printer_(target_.image_directory) {}

Result<> ReplSession::open_outputs() {
  TRY(output_, SharedWriter::open(context_.reactor, context_.console.output()));
  TRY(error_, SharedWriter::open(context_.reactor, context_.console.error()));
  return {};
}

Task<CellEnd> ReplSession::run(std::string code) {
  if (code.size() > kMaxCodeBytes) {
    co_return fail(Code::kInvalidArgument,
                   "the code is longer than 1 MiB; copy it into the sandbox (atoll cp) and run it "
                   "from there");
  }
  running_ = true;
  if (std::ranges::find(kLanguagesWithDriver, target_.language) == std::end(kLanguagesWithDriver)) {
    auto end = co_await run_on_terminal(std::move(code));
    running_ = false;
    co_return std::move(end);
  }
  const Instant began = context_.reactor.now();
  for (bool first = true;; first = false) {
    auto end = co_await run_once(std::exchange(code, std::string{kEmptyCode}));
    const bool broken = end ? !*end : end.error().reason == kReasonTransport && !first;
    if (!broken || context_.reactor.now() - began > kReconnectPatience) {
      running_ = false;
      if (!end) {
        co_return fail(std::move(end).error());
      }
      if (!*end) {
        co_return fail(Code::kUnavailable, "the server ends the connection each time",
                       kReasonTransport);
      }
      co_return **std::move(end);
    }
    if (first) {
      context_.console.complain(
          "[atoll: the connection broke; the code goes on, its value will not be shown]\n");
    }
    CO_TRY_DO(co_await sleep_for(kReconnectDelay));
  }
}

Task<CellEnd> ReplSession::run_on_terminal(std::string code) {
  CO_TRY(const auto answer,
         co_await api_.call("POST", context_path(target_.sandbox_id, target_.context_id, "/exec"),
                            Json::object({{"data", to_valid_utf8(code)}}), kForAsLongAsItRuns));
  const auto text = text_member(answer, "output_raw");
  CO_TRY_DO(co_await output_->write(text));
  const Json* running = answer.find("running");
  CellEnd end{.status = text_member(answer, "status"), .exit = std::nullopt};
  if (running != nullptr && running->as_bool() != nullptr && !*running->as_bool()) {
    end.exit = decode_exit(answer);
  }
  co_return end;
}

Task<std::optional<CellEnd>> ReplSession::run_once(std::string code) {
  using Kind = http::WebSocketMessage::Kind;
  CO_TRY(auto socket, co_await api_.open_socket(concat(
                          context_path(target_.sandbox_id, target_.context_id, "/ws?binary=true"),
                          "&after=", next_offset_)));
  auto sent = co_await socket->send_binary(code);
  if (!sent && sent.error().code == Code::kCancelled) {
    co_return fail(std::move(sent).error());
  }
  FairTurn turn;
  while (sent) {
    CO_TRY_DO(co_await turn.step());
    auto message = co_await socket->receive();
    if (!message && message.error().code == Code::kCancelled) {
      co_return fail(std::move(message).error());
    }
    if (!message || message->kind == Kind::kClose) {
      break;
    }
    if (message->kind == Kind::kBinary) {
      CO_TRY_DO(co_await take_output(message->payload));
      continue;
    }
    CO_TRY(const auto event, Json::parse(message->payload));
    CO_TRY(auto end, co_await take_event(event));
    if (end) {
      (void)co_await socket->close(1000, {});
      co_return std::move(end);
    }
  }
  co_return std::nullopt;
}

Task<std::optional<CellEnd>> ReplSession::take_event(const Json& event) {
  const auto type = text_member(event, "type");
  if (type == "done") {
    if (event.find("request_id") == nullptr) {
      co_return CellEnd{.status = "error", .exit = decode_exit(event)};
    }
    co_return CellEnd{.status = text_member(event, "status"), .exit = std::nullopt};
  }
  if (type == "result" || type == "display") {
    const Json* bundle = event.find("data");
    if (bundle != nullptr) {
      CO_TRY(const auto text, printer_.render(*bundle));
      CO_TRY_DO(co_await output_->write(text));
    }
  } else if (type == "error" && event.find("error") != nullptr) {
    co_return fail(Code::kInternal, text_member(event, "error"));
  } else if (type == "error") {
    auto text = text_member(event, "traceback");
    if (text.empty()) {
      text = concat(text_member(event, "name"), ": ", text_member(event, "value"));
    }
    text += text.ends_with('\n') ? "" : "\n";
    CO_TRY_DO(co_await error_->write(text));
  }
  co_return std::nullopt;
}

Task<> ReplSession::take_output(std::string_view frame) {
  if (frame.size() < kFrameHeadBytes) {
    co_return fail(Code::kDataLoss, "the server sent a frame that is too short");
  }
  std::uint64_t offset = 0;
  for (const char byte : frame.substr(1, kFrameHeadBytes - 1)) {
    offset = offset << 8U | static_cast<unsigned char>(byte);
  }
  const auto bytes = frame.substr(kFrameHeadBytes);
  next_offset_ = std::max(next_offset_, offset + bytes.size());
  co_return co_await (frame.front() == kErrorStream ? error_ : output_)->write(bytes);
}

Task<> ReplSession::interrupt() {
  CO_TRY_DO(co_await control_.call(
      "POST", context_path(target_.sandbox_id, target_.context_id, "/interrupt"), Json::object()));
  co_return ok();
}

}  // namespace atl::cli
