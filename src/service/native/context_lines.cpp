// Answers that come line by line (NDJSON): a context that is followed, a command that is followed
// from its first byte, code that is followed while it runs.
//
// POST contexts and POST contexts/{c}/exec answer so when the request says "Accept:
// application/x-ndjson". A slow reader slows the process down; nothing is dropped or kept here.
#include "service/native/context_lines.h"

#include <utility>

#include "base/strings.h"
#include "control/interpreter.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::ProcessStream;
using control::SandboxRef;

// For a repetition of the request; the rest of the output is in the context's journal.
constexpr std::size_t kMaxKeptLinesBytes = 256UL << 10;

std::string output_line(const guest::Output& output) {
  return output_object(output) + "\n";
}

// Until the exit, which is the last line. A client that goes away while the process is silent is
// noticed too.
Task<> send_events(NativeExchange& exchange, ProcessStream& stream) {
  for (;;) {
    Result<ProcessStream::Event> event;
    if (exchange.server_stops().is_set()) {
      co_return fail(server_stops_error());  // also while there is always more
    }
    if (stream.ready()) {
      event = co_await stream.next();
    } else {
      event = co_await while_followed(exchange, stream.next());
    }
    if (!event) {
      co_return fail(std::move(event).error());
    }
    if (const auto* exit = std::get_if<guest::ExitStatus>(&*event)) {
      const std::string line = exit_object(*exit) + "\n";
      CO_TRY_DO(co_await exchange.write(line));
      co_return co_await exchange.finish();
    }
    const std::string line = output_line(std::get<guest::Output>(*event));
    CO_TRY_DO(co_await exchange.write(line));
  }
}

Task<> feed(ProcessStream& stream, std::string bytes, bool end) {
  CO_TRY_DO(co_await stream.send_input(bytes));
  if (end) {
    CO_TRY_DO(co_await stream.end_input());
  }
  co_return ok();
}

// The answer of code that is followed, which two tasks write to: output as it comes, and a blank
// line whenever nothing came for a while. Clients and proxies give up on an answer that is silent
// for some minutes; code may well be. Under an Idempotency-Key the code is followed to its end also
// when the client has gone, and the lines are kept for the client that asks again.
class ExecutionLines {
 public:
  explicit ExecutionLines(NativeExchange& exchange) : exchange_(exchange) {}

  Task<> send_output(std::string line) {
    if (exchange_.is_recorded()) {
      kept_all_ = kept_all_ && kept_.size() + line.size() <= kMaxKeptLinesBytes;
      kept_ += kept_all_ ? line : std::string{};
    }
    auto sent = co_await send(std::move(line));
    co_return exchange_.is_recorded() ? Result<>{} : std::move(sent);
  }

  Task<> send_end(Json done) {
    const std::string line = done.dump() + "\n";
    if (!kept_all_) {
      done.set("truncated", true);
    }
    exchange_.remember({.status = 200,
                        .headers = {{"Content-Type", "application/x-ndjson"}},
                        .body = concat(kept_, done.dump(), "\n")});
    CO_TRY_DO(co_await send(line));
    co_return co_await exchange_.finish();
  }

  // Until cancelled. A client that has gone is found out so, and then nobody waits for the code.
  Task<> keep_alive(CancelState& waiting) {
    for (;;) {
      CO_TRY_DO(co_await sleep_for(kBlankLineInterval));
      if (std::exchange(quiet_, true)) {
        auto sent = co_await shielded(send("\n"));
        quiet_ = true;
        if (!sent && !exchange_.is_recorded()) {
          waiting.cancel();
          co_return ok();
        }
      }
    }
  }

 private:
  // A failed write must not look like a deadline of the code.
  Task<> send(std::string line) {
    while (busy_) {
      free_.clear();
      CO_TRY_DO(co_await free_.wait());
    }
    busy_ = true;
    if (!left_) {
      const auto written = co_await write(std::move(line));
      left_ = !written;
    }
    busy_ = false;
    quiet_ = false;
    free_.set();
    if (left_) {
      co_return fail(Code::kCancelled, "the client does not take the output any longer");
    }
    co_return ok();
  }

  Task<> write(std::string line) {
    if (!exchange_.started()) {
      CO_TRY_DO(co_await start_lines(exchange_, 200));
    }
    co_return co_await exchange_.write(line);
  }

  NativeExchange& exchange_;
  bool busy_ = false;
  bool quiet_ = true;  // nothing was sent since keep_alive() looked
  bool left_ = false;  // the client
  std::string kept_;
  bool kept_all_ = true;
  Event free_;
};

// After what a browser has seen, or where the caller says.
Result<std::uint64_t> start_offset(const http::Request& request) {
  TRY(const auto from, query_integer(request.query, "from", 0, INT64_MAX));
  const auto last = request.headers.get("Last-Event-ID");
  const auto seen = last.empty() ? std::nullopt : parse_i64(last);
  if (!last.empty() && (!seen || *seen < 0)) {
    return fail(Code::kInvalidArgument, "header \"Last-Event-ID\" must be an id of an event");
  }
  return static_cast<std::uint64_t>(seen.value_or(from.value_or(0)));
}

}  // namespace

std::string output_object(const guest::Output& output) {
  return concat("{\"type\":\"output\",\"source\":\"", source_name(output.header.stream),
                "\",\"offset\":", output.header.offset, ",\"data_base64\":\"",
                base64_encode(output.bytes), "\"}");
}

std::string exit_object(const guest::ExitStatus& status) {
  Json object = Json::object({{"type", "exit"}});
  set_exit(object, guest::ProcessInfo{.running = false, .exit = status});
  return object.dump();
}

bool wants_lines(const NativeExchange& exchange) {
  return to_lower(exchange.request().headers.get("Accept")).find("application/x-ndjson") !=
         std::string::npos;
}

Task<> start_lines(NativeExchange& exchange, int status) {
  return exchange.start(status,
                        {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"}},
                        std::nullopt);
}

Task<> ContextRoutes::stream(NativeExchange& exchange, SandboxRef sandbox, std::string id) {
  CO_TRY(const auto from, start_offset(exchange.request()));
  CO_TRY(const auto stream, co_await contexts_.follow(std::move(sandbox), std::move(id), from));
  if (wants_events(exchange)) {
    co_return co_await follow_as_events(exchange, *stream);
  }
  CO_TRY_DO(co_await start_lines(exchange, 200));
  co_return co_await send_events(exchange, *stream);
}

// The first line is the context. A repetition of the request gets that alone, as ordinary JSON.
Task<> ContextRoutes::create_and_stream(NativeExchange& exchange, SandboxRef sandbox,
                                        control::ContextRequest request, Json env) {
  CO_TRY(const auto started, co_await contexts_.create_and_follow(std::move(sandbox), request));
  Json context = context_json(started.context);
  context.set("env_vars", std::move(env));
  exchange.remember(data_response(201, context));
  Scope feeding{co_await current_context()};
  feeding.on_error([](const char*, const Error&) {});
  if (request.input) {
    feeding.spawn("input",
                  feed(*started.stream, *std::move(request.input), !request.keep_input_open));
  }
  auto sent = co_await start_lines(exchange, 201);
  if (sent) {
    const std::string line =
        Json::object({{"type", "started"}, {"context", std::move(context)}}).dump() + "\n";
    sent = co_await exchange.write(line);
  }
  if (sent) {
    sent = co_await send_events(exchange, *started.stream);
  }
  (void)co_await feeding.cancel_and_join();
  co_return std::move(sent);
}

// Output lines, then one of type "done" with everything else that exec answers. A repetition of the
// request gets them all at once.
Task<> ContextRoutes::execute_and_stream(NativeExchange& exchange, SandboxRef sandbox,
                                         std::string id, std::string code,
                                         std::uint64_t timeout_ms) {
  ExecutionLines lines{exchange};
  const control::OutputSink sink = [&lines](const guest::Output& output) {
    return lines.send_output(output_line(output));
  };
  TaskContext& outer = co_await current_context();
  CancelState waiting{outer.cancel};
  TaskContext inner{outer.loop, &waiting, outer.trace};
  Scope beside{outer};
  beside.spawn("alive", lines.keep_alive(waiting));
  const auto result =
      co_await contexts_.interpreters()
          .execute(std::move(sandbox), std::move(id),
                   {.code = std::move(code), .timeout_ms = timeout_ms, .output = sink})
          .under(inner);
  (void)co_await beside.cancel_and_join();
  if (!result) {
    co_return fail(result.error());
  }
  Json done = Json::object({{"type", "done"}});
  set_ending(done, *result);
  co_return co_await lines.send_end(std::move(done));
}

}  // namespace atl::service::native
