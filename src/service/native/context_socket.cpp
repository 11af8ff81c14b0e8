// contexts/{id}/ws: the output of a context as it comes, and its input, on one WebSocket.
//
// Text frames are the contract's JSON; "offset" is ours, and ?after=OFFSET continues where an
// earlier connection ended. With ?binary=true output comes in binary frames instead: one byte for
// the stream (1 stdout, 2 stderr, 3 terminal), eight for the offset (big-endian), then the bytes.
// A client that reads slowly slows the process down and loses nothing. Of a REPL on a terminal the
// prompts are not output: they become the "done" of the input they answer.
#include <algorithm>
#include <csignal>
#include <deque>
#include <map>

#include "base/random.h"
#include "base/strings.h"
#include "control/prompt_reader.h"
#include "control/transcript.h"
#include "service/native/context_json.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/routes.h"
#include "service/native/utf8_joiner.h"

namespace atl::service::native {
namespace {

using control::ProcessStream;
using control::SandboxRef;

constexpr std::size_t kMaxSocketMessageBytes = 1U << 20;
constexpr std::size_t kMaxPendingRequests = 256;

std::string binary_frame(const guest::Output& output) {
  std::string frame(1, static_cast<char>(output.header.stream));
  for (int shift = 56; shift >= 0; shift -= 8) {
    frame += static_cast<char>(output.header.offset >> static_cast<unsigned>(shift));
  }
  frame += output.bytes;
  return frame;
}

// One connection: sends what the process prints while it takes what the client says.
class ContextSocket {
 public:
  ContextSocket(control::Contexts& contexts, SandboxRef sandbox, std::string id,
                ProcessStream& stream, http::WebSocket& socket, const guest::ProcessInfo& process,
                bool binary)
      : contexts_(contexts),
        sandbox_(std::move(sandbox)),
        id_(std::move(id)),
        stream_(stream),
        socket_(socket),
        interpreter_(control::language_of(process).has_value()),
        terminal_(control::repl_of(process)),
        binary_(binary) {
    if (terminal_) {
      prompts_.emplace(terminal_->ready, terminal_->token);
    }
  }

  // Until the process has ended and the client knows, or the client has gone.
  Task<> run() {
    TaskContext& outer = co_await current_context();
    CancelState cancel{outer.cancel};
    TaskContext inner{outer.loop, &cancel};
    Scope listening{outer};
    listening.on_error([](const char*, const Error&) {});
    listening.spawn("client", listen(cancel));
    auto sent = co_await send_output().under(inner);
    if (sent) {
      sent = co_await socket_.close(1000, {});
    }
    (void)co_await listening.cancel_and_join();
    if (!sent && client_left_) {
      co_return ok();
    }
    if (!sent) {
      (void)co_await socket_.close(1011, "the context cannot be followed any longer");
    }
    co_return std::move(sent);
  }

 private:
  Task<> listen(CancelState& cancel) {
    auto ended = co_await take_messages();
    client_left_ = ended.has_value() || ended.error().code != Code::kCancelled;
    cancel.cancel();
    co_return std::move(ended);
  }

  Task<> take_messages() {
    using Kind = http::WebSocketMessage::Kind;
    for (;;) {
      CO_TRY(const auto message, co_await socket_.receive());
      if (message.kind == Kind::kClose) {
        co_return ok();
      }
      auto done = message.kind == Kind::kBinary ? co_await input(message.payload, {})
                                                : co_await take(message.payload);
      if (done) {
        continue;
      }
      if (done.error().code == Code::kCancelled || done.error().reason == "guest_lost") {
        co_return std::move(done);
      }
      const std::string text =
          Json::object({{"type", "error"}, {"error", done.error().message}}).dump();
      CO_TRY_DO(co_await socket_.send_text(text));
    }
  }

  // A frame that is no JSON object, or of an unknown type, is input as it stands.
  Task<> take(std::string_view text) {
    const auto json = Json::parse(text);
    const Json* type = json ? json->find("type") : nullptr;
    const auto* name = type == nullptr ? nullptr : type->as_string();
    if (name != nullptr && *name == "input") {
      const Json* data = json->find("data");
      const auto* bytes = data == nullptr ? nullptr : data->as_string();
      const Json* given = json->find("request_id");
      given = given == nullptr ? json->find("requestId") : given;
      const auto* request = given == nullptr ? nullptr : given->as_string();
      co_return co_await input(bytes == nullptr ? std::string{} : *bytes,
                               request == nullptr ? std::string{} : *request);
    }
    if (name != nullptr && *name == "resize") {
      co_return co_await resize(*json);
    }
    if (name != nullptr && *name == "signal") {
      const Json* signal = json->find("signal");
      const auto* word = signal == nullptr ? nullptr : signal->as_string();
      CO_TRY(const auto number, control::parse_signal(word == nullptr ? "" : *word));
      if (number == SIGINT && interpreter_) {
        co_return co_await contexts_.interpreters().interrupt(sandbox_, id_);
      }
      co_return co_await contexts_.signal(sandbox_, id_, number);
    }
    co_return co_await input(std::string{text}, {});
  }

  Task<> resize(const Json& json) {
    CO_TRY(const auto fields, Fields::of(json, "", {"type", "rows", "cols"}));
    CO_TRY(const auto rows, fields.integer("rows", 1, guest::kMaxPtyCells));
    CO_TRY(const auto columns, fields.integer("cols", 1, guest::kMaxPtyCells));
    const guest::PtySize size{static_cast<std::uint32_t>(rows.value_or(24)),
                              static_cast<std::uint32_t>(columns.value_or(80))};
    if (interpreter_) {
      co_return co_await contexts_.interpreters().resize(sandbox_, id_, size);
    }
    co_return co_await stream_.resize(size);
  }

  Task<> input(std::string bytes, std::string request) {
    if (pending_.size() + unanswered_.size() >= kMaxPendingRequests) {
      co_return fail(Code::kResourceExhausted, "too much code waits for this interpreter");
    }
    if (terminal_ && !request.empty()) {
      const auto lines = static_cast<std::size_t>(std::ranges::count(bytes, '\n'));
      unanswered_.push_back({std::move(request), std::max<std::size_t>(lines, 1)});
    }
    if (!interpreter_) {
      co_return co_await stream_.send_input(bytes);
    }
    const std::string execution = random_hex(16);
    pending_.emplace(execution, std::move(request));
    const std::string line = concat("exec ", execution, " ", base64_encode(bytes), "\n");
    co_return co_await stream_.send_channel(line);
  }

  Task<> send_output() {
    for (;;) {
      CO_TRY(const auto event, co_await stream_.next());
      if (const auto* exit = std::get_if<guest::ExitStatus>(&event)) {
        CO_TRY_DO(co_await send_rest());
        Json done = Json::object({{"type", "done"}});
        set_exit(done, guest::ProcessInfo{.running = false, .exit = *exit});
        const std::string text = done.dump();
        co_return co_await socket_.send_text(text);
      }
      const auto& output = std::get<guest::Output>(event);
      if (output.header.stream == guest::Stream::kChannel) {
        CO_TRY_DO(co_await take_channel(std::string{output.bytes}));
        continue;
      }
      last_ = {output.header.stream, output.header.offset + output.bytes.size()};
      if (prompts_) {
        CO_TRY_DO(co_await send_without_prompts(output));
      } else if (binary_) {
        const std::string frame = binary_frame(output);
        CO_TRY_DO(co_await socket_.send_binary(frame));
      } else {
        CO_TRY_DO(co_await send_text_output(output.header.stream, output.header.offset,
                                            joiners_[output.header.stream].add(output.bytes)));
      }
    }
  }

  Task<> send_without_prompts(const guest::Output& output) {
    const guest::OutputHeader header = output.header;
    const std::size_t before = prompts_->prompts();
    std::string text = prompts_->add(output.bytes);
    const std::size_t after = std::max(prompts_->prompts(), before);
    if (binary_ && !text.empty()) {
      const std::string frame = binary_frame({header, text});
      CO_TRY_DO(co_await socket_.send_binary(frame));
    } else if (!binary_) {
      std::string whole = joiners_[header.stream].add(text);
      CO_TRY_DO(co_await send_text_output(header.stream, header.offset, std::move(whole)));
    }
    for (std::size_t seen = before; seen < after && !unanswered_.empty(); ++seen) {
      auto& first = unanswered_.front();
      if (--first.prompts > 0 && terminal_->ready == control::Ready::kPrompts) {
        continue;
      }
      const std::string done =
          Json::object({{"type", "done"}, {"request_id", std::move(first.request)}}).dump();
      unanswered_.pop_front();
      CO_TRY_DO(co_await socket_.send_text(done));
    }
    co_return ok();
  }

  // What was kept back as the beginning of a prompt or of a character.
  Task<> send_rest() {
    std::string rest = prompts_ ? prompts_->finish() : std::string{};
    last_.offset -= rest.size();
    if (binary_ && !rest.empty()) {
      const std::string frame = binary_frame({last_, rest});
      CO_TRY_DO(co_await socket_.send_binary(frame));
    } else if (!rest.empty()) {
      CO_TRY_DO(
          co_await send_text_output(last_.stream, last_.offset, joiners_[last_.stream].add(rest)));
    }
    for (auto& [stream, joiner] : joiners_) {
      CO_TRY_DO(co_await send_text_output(stream, last_.offset, joiner.finish()));
    }
    co_return ok();
  }

  Task<> send_text_output(guest::Stream stream, std::uint64_t offset, std::string text) {
    if (text.empty()) {
      co_return ok();
    }
    const std::string frame = Json::object({{"type", "output"},
                                            {"source", source_name(stream)},
                                            {"data", std::move(text)},
                                            {"offset", offset}})
                                  .dump();
    co_return co_await socket_.send_text(frame);
  }

  // What an interpreter says about the code this connection gave it.
  Task<> take_channel(std::string bytes) {
    lines_.append(bytes);
    while (const auto line = lines_.next()) {
      const auto message = control::parse_channel_message(*line);
      const auto found = message ? pending_.find(message->id) : pending_.end();
      if (found == pending_.end()) {
        continue;
      }
      Json frame = Json::object({{"type", message->op}, {"request_id", found->second}});
      for (const auto* name : {"data", "name", "value", "traceback", "status", "exit_code"}) {
        if (const Json* value = message->body.find(name)) {
          frame.set(name, *value);
        }
      }
      if (message->op == "done") {
        pending_.erase(found);
      }
      const std::string text = frame.dump();
      CO_TRY_DO(co_await socket_.send_text(text));
    }
    co_return ok();
  }

  control::Contexts& contexts_;
  const SandboxRef sandbox_;
  const std::string id_;
  ProcessStream& stream_;
  http::WebSocket& socket_;
  const bool interpreter_;  // with a driver
  const std::optional<control::ReplDefinition> terminal_;
  std::optional<control::PromptReader> prompts_;
  const bool binary_;
  bool client_left_ = false;
  guest::OutputHeader last_;  // of the output so far: its stream and end
  control::ChannelLines lines_;
  std::map<guest::Stream, Utf8Joiner> joiners_;
  std::map<std::string, std::string> pending_;  // execution -> the client's request id
  struct Unanswered {
    std::string request;
    std::size_t prompts = 1;
  };
  std::deque<Unanswered> unanswered_;  // by a REPL on a terminal
};

}  // namespace

Task<> ContextRoutes::socket(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  const auto& query = exchange.request().query;
  CO_TRY(const auto after, query_integer(query, "after", 0, INT64_MAX));
  CO_TRY(const bool binary, query_boolean(query, "binary"));
  CO_TRY(const auto process, co_await contexts_.describe(sandbox, id));
  CO_TRY(const auto stream,
         co_await contexts_.follow(sandbox, id, static_cast<std::uint64_t>(after.value_or(0))));
  CO_TRY(const auto socket,
         co_await exchange.accept_websocket({.max_message_bytes = kMaxSocketMessageBytes}));
  ContextSocket connection{contexts_, std::move(sandbox), std::move(id), *stream, *socket, process,
                           binary};
  co_return co_await connection.run();
}

}  // namespace atl::service::native
