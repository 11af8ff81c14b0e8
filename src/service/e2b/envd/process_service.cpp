#include "service/e2b/envd/process_service.h"

#include <algorithm>

#include "base/strings.h"
#include "service/e2b/envd/process_text.h"
#include "service/e2b/envd/sandbox_path.h"

namespace atl::service::e2b::envd {
namespace {

using control::ContextRequest;
using control::ProcessStream;
using control::SandboxRef;
using guest::ProcessInfo;

// For whoever connects after the end: it is told once more.
constexpr std::uint64_t kRememberedMs = 30'000;
constexpr std::size_t kMaxTagBytes = 1024;
constexpr std::size_t kMaxFound = 4096;
constexpr std::string_view kEventsAddress = "http://192.0.2.1";

guest::PtySize pty_size(const Json& pty) {
  const Json size = object_of(pty, "size");
  guest::PtySize result;
  if (const auto rows = number_of(size, "rows"); rows > 0) {
    result.rows = rows;
  }
  if (const auto columns = number_of(size, "cols"); columns > 0) {
    result.columns = columns;
  }
  return result;
}

std::unexpected<Error> no_process(const Json& selector) {
  const std::string tag = text_of(selector, "tag");
  return fail(Code::kNotFound,
              tag.empty() ? concat("process with pid ", number_of(selector, "pid"), " not found")
                          : concat("process with tag ", tag, " not found"));
}

// What contexts say about a start, in the words of E2B.
Error start_error(Error error, const Caller& caller, const std::string& cwd) {
  if (error.reason == "user_not_found" || error.reason == "bad_user") {
    return {Code::kUnauthenticated, concat("invalid username: '", caller.user, "'")};
  }
  if (error.reason == "cwd_not_found") {
    return {Code::kInvalidArgument, concat("cwd '", cwd, "' does not exist")};
  }
  if (error.reason == "process_not_found" || error.reason == "process_ended") {
    error.code = Code::kNotFound;
  }
  if (error.reason == "command_not_found") {
    error.code = Code::kInvalidArgument;  // the process is what would not be found
  }
  return error;
}

Json event_message(std::string name, Json event) {
  return Json::object({{"event", Json::object({{std::move(name), std::move(event)}})}});
}

// Until the exit, which is the last event. A process that was ended because its time was up is told
// as a call that took too long.
Task<> send_output(ProcessStream& stream, AnswerStream& answers) {
  for (;;) {
    CO_TRY(const auto event, co_await stream.next());
    if (const auto* status = std::get_if<guest::ExitStatus>(&event)) {
      if (status->timed_out) {
        co_return co_await answers.end_with(
            {Code::kDeadlineExceeded, "the process was ended because its time was up"});
      }
      CO_TRY_DO(co_await answers.send(event_message("end", end_event(*status))));
      co_return co_await answers.end();
    }
    const auto& output = std::get<guest::Output>(event);
    if (output.header.stream != guest::Stream::kChannel) {
      CO_TRY_DO(co_await answers.send_encoded(encode_output(answers.codec(), output)));
    }
  }
}

Task<> follow(ProcessStream& stream, AnswerStream& answers, std::uint32_t pid,
              Duration keepalive_interval) {
  CO_TRY_DO(co_await answers.send(event_message("start", Json::object({{"pid", pid}}))));
  Scope beside{co_await current_context()};
  beside.on_error([](const char*, const Error&) {});  // the sender will notice
  beside.spawn("keepalive",
               answers.keep_alive(keepalive_interval, event_message("keepalive", Json::object())));
  auto sent = co_await send_output(stream, answers);
  (void)co_await beside.cancel_and_join();
  co_return std::move(sent);
}

}  // namespace

const ProcessService::UnaryMethod ProcessService::kUnaryMethods[] = {
    {"List", &kEmpty, &kProcessListResponse, &ProcessService::list},
    {"Update", &kUpdateRequest, &kEmpty, &ProcessService::update},
    {"SendInput", &kSendInputRequest, &kEmpty, &ProcessService::send_input},
    {"SendSignal", &kSendSignalRequest, &kEmpty, &ProcessService::send_signal},
    {"CloseStdin", &kProcessSelection, &kEmpty, &ProcessService::close_stdin},
};

Task<> ProcessService::serve(E2bExchange& exchange, const SandboxTarget& target, CallFormat format,
                             std::string method) {
  auto caller = read_caller(exchange.request(), target);
  if (!caller) {
    co_return co_await respond_error(exchange, format, std::move(caller).error());
  }
  if (method == "StreamInput") {
    co_return co_await stream_input(exchange, *std::move(caller), format);
  }
  const auto unary = std::ranges::find(kUnaryMethods, method, &UnaryMethod::name);
  const bool is_unary = unary != std::end(kUnaryMethods);
  if (!is_unary && method != "Start" && method != "Connect") {
    co_return co_await respond_error(
        exchange, format,
        {Code::kUnimplemented, concat("process.Process has no method ", to_valid_utf8(method))});
  }
  const Message& message = is_unary            ? *unary->request
                           : method == "Start" ? kStartRequest
                                               : kProcessSelection;
  auto request = co_await read_request(exchange, format, message);
  if (!request) {
    co_return co_await respond_error(exchange, format, std::move(request).error());
  }
  if (is_unary) {
    auto answer = co_await (this->*unary->handler)(*std::move(caller), *std::move(request));
    if (!answer) {
      co_return co_await respond_error(exchange, format, std::move(answer).error());
    }
    co_return co_await respond_message(exchange, format, *unary->response, *std::move(answer));
  }
  format.streaming = true;
  Task<> streaming =
      method == "Start"
          ? start(exchange, target, *std::move(caller), *std::move(request), format.codec)
          : connect(exchange, *std::move(caller), *std::move(request), format.codec);
  auto streamed = co_await std::move(streaming);
  if (!streamed && !exchange.started()) {
    co_return co_await respond_error(exchange, format, std::move(streamed).error());
  }
  co_return std::move(streamed);
}

Result<ContextRequest> ProcessService::plan(const SandboxTarget& target, const Caller& caller,
                                            const Json& request) const {
  const Json config = object_of(request, "process");
  ContextRequest plan{.command = {text_of(config, "cmd")}, .user = caller.user};
  if (plan.command.front().empty()) {
    return fail(Code::kInvalidArgument, "the process needs a command");
  }
  if (const Json* arguments = config.find("args")) {
    for (const Json& argument : *arguments->as_array()) {
      plan.command.push_back(*argument.as_string());
    }
  }
  plan.env = {{"E2B_SANDBOX", "true"},
              {"E2B_SANDBOX_ID", target.sandbox.sandbox_id},
              {"E2B_TEMPLATE_ID", target.template_name},
              {"E2B_EVENTS_ADDRESS", std::string{kEventsAddress}}};
  for (const auto& [name, value] : target.env) {
    plan.env.erase(name);
  }
  const Json envs = object_of(config, "envs");
  for (const auto& [name, value] : *envs.as_object()) {
    plan.env.insert_or_assign(name, *value.as_string());
  }
  const std::string tag = text_of(request, "tag");
  if (tag.size() > kMaxTagBytes) {
    return fail(Code::kInvalidArgument, concat("a tag has at most ", kMaxTagBytes, " bytes"));
  }
  plan.label = process_label(tag, envs);
  plan.cwd = process_directory(text_of(config, "cwd"), contexts_.defaults(target.sandbox).cwd);
  const Json* stdin_wanted = request.find("stdin");
  plan.keep_input_open = stdin_wanted == nullptr || *stdin_wanted->as_bool();
  if (const Json* pty = request.find("pty")) {
    plan.pty = pty_size(*pty);
  }
  plan.timeout_ms = caller.timeout_ms;
  plan.forget_after_ms = kRememberedMs;
  return plan;
}

Task<> ProcessService::start(E2bExchange& exchange, const SandboxTarget& target, Caller caller,
                             Json request, Codec codec) {
  CO_TRY(auto context, plan(target, caller, request));
  std::string cwd = text_of(object_of(request, "process"), "cwd");
  Scope beside{co_await current_context()};
  beside.on_error([](const char*, const Error&) {});  // a disk that is full, for example
  if (markers_.wanted(target)) {
    beside.spawn("markers", shielded(markers_.write(target.sandbox, target.template_name)));
  }
  auto ran = co_await run(exchange, std::move(context), caller, std::move(cwd), codec);
  (void)co_await shielded(beside.join());
  co_return std::move(ran);
}

Task<> ProcessService::run(E2bExchange& exchange, ContextRequest request, Caller caller,
                           std::string cwd, Codec codec) {
  const auto started = co_await contexts_.create_and_follow(caller.sandbox, std::move(request));
  if (!started) {
    co_return fail(start_error(started.error(), caller, cwd));
  }
  AnswerStream answers{exchange, codec, kProcessEventResponse};
  co_return co_await while_followed(
      exchange,
      follow(*started->stream, answers, started->stream->pid(), caller.keepalive_interval));
}

Task<> ProcessService::connect(E2bExchange& exchange, Caller caller, Json request, Codec codec) {
  CO_TRY(const auto process, co_await select(caller.sandbox, object_of(request, "process"), true));
  auto followed = co_await contexts_.follow_from_now(caller.sandbox, process.process_id);
  if (!followed) {
    co_return fail(start_error(std::move(followed).error(), caller, {}));
  }
  AnswerStream answers{exchange, codec, kProcessEventResponse};
  auto following = while_followed(
      exchange, follow(*followed->stream, answers, process.pid, caller.keepalive_interval));
  if (caller.timeout_ms == 0) {
    co_return co_await std::move(following);
  }
  auto sent =
      co_await with_deadline(std::chrono::milliseconds{caller.timeout_ms}, std::move(following));
  if (!sent && sent.error().code == Code::kDeadlineExceeded && sent.error().reason.empty()) {
    co_return co_await answers.end_with({Code::kDeadlineExceeded, "the call took too long"});
  }
  co_return std::move(sent);
}

Task<ProcessInfo> ProcessService::select(SandboxRef sandbox, Json selector, bool ended) {
  const std::string tag = text_of(selector, "tag");
  const std::uint32_t pid = number_of(selector, "pid");
  const std::string key = control::context_key(sandbox, std::to_string(pid));
  if (const auto found = found_.find(key); tag.empty() && found != found_.end()) {
    auto process = co_await contexts_.describe(sandbox, found->second);
    if (process && process->running && process->pid == pid) {
      co_return std::move(process);
    }
  }
  CO_TRY(const auto contexts, co_await contexts_.list(std::move(sandbox)));
  const ProcessInfo* found = nullptr;
  for (const control::Context& context : contexts) {
    const ProcessInfo& process = context.process;
    const bool meant = tag.empty() ? process.pid == pid : process_tag(process) == tag;
    const bool better = found == nullptr || process.running || !found->running;
    if (meant && better && (process.running || ended) && process_json(process)) {
      found = &process;
    }
  }
  if (found == nullptr) {
    co_return no_process(selector);
  }
  if (tag.empty() && found->running) {
    if (found_.size() >= kMaxFound) {
      found_.clear();
    }
    found_.insert_or_assign(key, found->process_id);
  }
  co_return *found;
}

Task<Json> ProcessService::list(Caller caller, Json) {
  CO_TRY(const auto contexts, co_await contexts_.list(std::move(caller.sandbox)));
  Json processes = Json::array();
  for (const control::Context& context : contexts) {
    auto process = context.process.running ? process_json(context.process) : std::nullopt;
    if (process) {
      processes.push(*std::move(process));
    }
  }
  co_return Json::object({{"processes", std::move(processes)}});
}

Task<Json> ProcessService::update(Caller caller, Json request) {
  const Json selector = object_of(request, "process");
  CO_TRY(auto process, co_await select(caller.sandbox, selector, false));
  if (const Json* pty = request.find("pty")) {
    auto resized =
        co_await contexts_.resize(caller.sandbox, std::move(process.process_id), pty_size(*pty));
    if (!resized) {
      co_return fail(start_error(std::move(resized).error(), caller, {}));
    }
  }
  co_return Json::object();
}

Task<Json> ProcessService::send_input(Caller caller, Json request) {
  const Json selector = object_of(request, "process");
  CO_TRY(const auto process, co_await select(caller.sandbox, selector, false));
  CO_TRY_DO(co_await feed(caller, process, object_of(request, "input")));
  co_return Json::object();
}

Task<> ProcessService::feed(const Caller& caller, const ProcessInfo& process, Json input) {
  const Json* bytes = input.find(process.pty ? "pty" : "stdin");
  if (bytes == nullptr) {
    co_return fail(Code::kInvalidArgument, process.pty
                                               ? "a process with a terminal takes input for that"
                                               : "a process without a terminal takes stdin");
  }
  auto sent =
      co_await contexts_.input(caller.sandbox, process.process_id, *bytes->as_string(), false);
  if (!sent) {
    co_return fail(start_error(std::move(sent).error(), caller, {}));
  }
  co_return ok();
}

Task<Json> ProcessService::send_signal(Caller caller, Json request) {
  const std::string signal = text_of(request, "signal");
  const std::uint32_t number = signal == "SIGNAL_SIGKILL" ? 9 : signal == "SIGNAL_SIGTERM" ? 15 : 0;
  if (number == 0) {
    co_return fail(Code::kUnimplemented, "the signal must be SIGKILL or SIGTERM");
  }
  const Json selector = object_of(request, "process");
  CO_TRY(auto process, co_await select(caller.sandbox, selector, false));
  auto sent = co_await contexts_.signal(caller.sandbox, std::move(process.process_id), number);
  if (!sent) {
    co_return fail(start_error(std::move(sent).error(), caller, {}));
  }
  co_return Json::object();
}

Task<Json> ProcessService::close_stdin(Caller caller, Json request) {
  const Json selector = object_of(request, "process");
  CO_TRY(auto process, co_await select(caller.sandbox, selector, false));
  if (process.pty) {
    co_return fail(Code::kFailedPrecondition,
                   "the input of a terminal cannot be closed; send it ctrl+d (0x04) instead");
  }
  auto closed = co_await contexts_.input(caller.sandbox, std::move(process.process_id), {}, true);
  if (!closed) {
    co_return fail(start_error(std::move(closed).error(), caller, {}));
  }
  co_return Json::object();
}

Task<> ProcessService::stream_input(E2bExchange& exchange, Caller caller, CallFormat format) {
  if (!format.streaming) {
    co_return co_await respond_error(
        exchange, format, {Code::kInvalidArgument, "StreamInput takes a stream of messages"});
  }
  auto fed = co_await feed_from(exchange, std::move(caller), format);
  if (!fed) {
    co_return co_await respond_error(exchange, format, std::move(fed).error());
  }
  co_return co_await respond_message(exchange, format, kEmpty, Json::object());
}

// The first message says which process, the others bring its input.
Task<> ProcessService::feed_from(E2bExchange& exchange, Caller caller, CallFormat format) {
  EnvelopeDecoder decoder;
  std::string buffer(std::size_t{64} * 1024, '\0');
  std::optional<ProcessInfo> process;
  for (;;) {
    CO_TRY(auto envelope, decoder.next());
    if (!envelope) {
      CO_TRY(const auto got, co_await exchange.body().read(buffer));
      if (got == 0) {
        co_return decoder.partial()
            ? Result<>{fail(Code::kInvalidArgument, "the stream ended within a message")}
            : Result<>{};
      }
      decoder.feed(std::string_view{buffer}.substr(0, got));
      continue;
    }
    CO_TRY(auto message, decode_message(kStreamInputRequest, format.codec, envelope->message));
    if (const Json* start = message.find("start")) {
      CO_TRY(process, co_await select(caller.sandbox, object_of(*start, "process"), false));
    } else if (const Json* data = message.find("data")) {
      if (!process) {
        co_return fail(Code::kInvalidArgument, "the first message must say which process");
      }
      CO_TRY_DO(co_await feed(caller, *process, object_of(*data, "input")));
    }
  }
}

}  // namespace atl::service::e2b::envd
