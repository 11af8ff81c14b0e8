// `atoll logs`: what contexts have printed and, with -f, what they go on to print.
//
// One context: its bytes as they are. All of them: whole lines, each with its context before it,
// because lines of several would mix otherwise. There a terminal gets no control characters: by
// them one context could write lines in the name of another.
#include <set>

#include "base/scope.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/event_stream.h"
#include "cli/fair_turn.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

constexpr std::size_t kReadBufferBytes = 64UL << 10;
constexpr std::size_t kMaxLineBytes = 64UL << 10;  // then it is broken
constexpr std::chrono::seconds kNewContextInterval{1};
constexpr std::chrono::milliseconds kReconnectDelay{500};

bool is_running(const Json& context) {
  const Json* running = context.find("running");
  return running != nullptr && running->as_bool() != nullptr && *running->as_bool();
}

// "stdout" as it was, from its text or, where that cannot carry it, from base64.
std::string exact_member(const Json& context, const std::string& name) {
  const auto encoded = base64_decode(text_member(context, name + "_base64"));
  return encoded && !encoded->empty() ? *encoded : text_member(context, name);
}

class Logs {
 public:
  Logs(CommandContext& context, const LogsOptions& options)
      : context_(context), options_(options), api_(context.reactor, context.endpoint) {}

  Task<int> run() {
    CO_TRY(sandbox_id_, co_await resolve_sandbox(api_, options_.id));
    CO_TRY(output_, SharedWriter::open(context_.reactor, context_.console.output()));
    CO_TRY(error_, SharedWriter::open(context_.reactor, context_.console.error()));
    if (!options_.context.empty()) {
      CO_TRY_DO(co_await show(options_.context, false));
    } else if (options_.follow) {
      CO_TRY_DO(co_await follow_all());
    } else {
      CO_TRY(const auto ids, co_await list());
      for (const auto& id : ids) {
        CO_TRY_DO(co_await show(id, true));
      }
    }
    co_return 0;
  }

 private:
  struct Reader {
    std::string id;
    bool label = false;
    std::uint64_t next_offset = 0;
    std::string lines[2];  // of stdout and stderr: begun, not ended
  };

  Task<std::vector<std::string>> list() {
    CO_TRY(const auto answer,
           co_await api_.call("GET", concat(sandbox_path(sandbox_id_), "/contexts")));
    std::vector<std::string> ids;
    const Json* contexts = answer.find("contexts");
    if (contexts != nullptr && contexts->as_array() != nullptr) {
      for (const auto& each : *contexts->as_array()) {
        ids.push_back(text_member(each, "id"));
      }
    }
    co_return ids;
  }

  // Contexts come and go; nothing announces a new one.
  Task<> follow_all() {
    TaskContext& outer = co_await current_context();
    CancelState failed{outer.cancel};
    TaskContext inner{outer.loop, &failed};
    Result<> first_error;
    Scope scope{outer};
    scope.on_error([&](const char*, const Error& error) {
      if (first_error && error.code != Code::kNotFound) {  // one that was deleted just ends
        first_error = fail(error);
        failed.cancel();
      }
    });
    auto watched = co_await watch_contexts(scope).under(inner);
    (void)co_await scope.cancel_and_join();
    co_return first_error ? std::move(watched) : std::move(first_error);
  }

  Task<> watch_contexts(Scope& scope) {
    std::set<std::string> known;
    for (;;) {
      auto ids = co_await list();
      if (!ids && ids.error().reason != kReasonTransport) {
        co_return fail(std::move(ids).error());
      }
      for (const auto& id : ids ? *ids : std::vector<std::string>{}) {
        if (known.insert(id).second) {
          scope.spawn("context", show(id, true));
        }
      }
      CO_TRY_DO(co_await sleep_for(kNewContextInterval));
    }
  }

  Task<> show(std::string id, bool label) {
    Reader reader{.id = std::move(id), .label = label};
    Api api{context_.reactor, context_.endpoint};
    CO_TRY(const auto described, co_await api.call("GET", context_path(sandbox_id_, reader.id)));
    if (options_.follow || !is_running(described)) {
      CO_TRY_DO(co_await stream(api, reader));
    } else {
      const auto text = exact_member(described, "output_raw");
      CO_TRY_DO(co_await take(reader, {.data = text}));
    }
    for (const int stream : {0, 1}) {
      if (!reader.lines[stream].empty()) {
        CO_TRY_DO(co_await print_line(reader, stream == 1, std::move(reader.lines[stream])));
      }
    }
    co_return ok();
  }

  Task<> stream(Api& api, Reader& reader) {
    for (int broken = 0;;) {
      const auto before = reader.next_offset;
      auto ended = co_await stream_once(api, reader);
      if (ended && *ended) {
        co_return ok();
      }
      if (!ended && ended.error().reason != kReasonTransport) {
        co_return fail(std::move(ended).error());
      }
      broken = reader.next_offset > before ? 1 : broken + 1;
      if (broken > kMaxReconnects) {
        co_return ended
            ? fail(Code::kUnavailable, "the server ends the stream early", kReasonTransport)
            : fail(std::move(ended).error());
      }
      CO_TRY_DO(co_await sleep_for(kReconnectDelay * broken));
    }
  }

  Task<bool> stream_once(Api& api, Reader& reader) {
    CO_TRY(auto response,
           co_await api.open(
               concat(context_path(sandbox_id_, reader.id, "/stream?from="), reader.next_offset)));
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
        if (std::holds_alternative<ExitEvent>(event)) {
          co_return true;
        }
        CO_TRY_DO(co_await take(reader, std::move(std::get<OutputEvent>(event))));
      }
    }
  }

  Task<> take(Reader& reader, OutputEvent event) {
    reader.next_offset = std::max(reader.next_offset, event.offset + event.data.size());
    if (event.is_channel) {
      co_return ok();
    }
    if (context_.options.json) {
      const auto record = Json::object({{"context_id", reader.id},
                                        {"source", event.to_error ? "stderr" : "stdout"},
                                        {"offset", event.offset},
                                        {"data", to_valid_utf8(event.data)}})
                              .dump() +
                          "\n";
      co_return co_await output_->write(record);
    }
    if (!reader.label) {
      co_return co_await (event.to_error ? error_ : output_)->write(event.data);
    }
    auto& line = reader.lines[event.to_error ? 1 : 0];
    line += event.data;
    for (auto end = line.find('\n'); end != std::string::npos; end = line.find('\n')) {
      auto whole = line.substr(0, end);
      line.erase(0, end + 1);
      CO_TRY_DO(co_await print_line(reader, event.to_error, std::move(whole)));
    }
    if (line.size() > kMaxLineBytes) {
      CO_TRY_DO(co_await print_line(reader, event.to_error, std::exchange(line, {})));
    }
    co_return ok();
  }

  Task<> print_line(const Reader& reader, bool to_error, std::string line) {
    const auto& console = context_.console;
    const auto label = printable(reader.id);
    if (to_error ? console.error_is_terminal() : console.output_is_terminal()) {
      line = printable_line(line);
    }
    const std::string text = concat(to_error ? console.paint_error(Colour::kDim, label)
                                             : console.paint_output(Colour::kDim, label),
                                    " ", line, "\n");
    co_return co_await (to_error ? error_ : output_)->write(text);
  }

  CommandContext& context_;
  const LogsOptions& options_;
  Api api_;
  std::string sandbox_id_;
  std::unique_ptr<SharedWriter> output_;
  std::unique_ptr<SharedWriter> error_;
};

}  // namespace

Task<int> command_logs(CommandContext& context, const LogsOptions& options) {
  Logs logs{context, options};
  co_return co_await logs.run();
}

}  // namespace atl::cli
