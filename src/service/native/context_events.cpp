// contexts/{id}/stream as server-sent events, for "Accept: text/event-stream".
//
// The data of an event is the object that a line of NDJSON would be. Its id is the offset at which
// a client goes on after it, so that Last-Event-ID means to a browser what ?from= means to others.
#include "base/strings.h"
#include "http/event_writer.h"
#include "service/native/context_lines.h"

namespace atl::service::native {
namespace {

using control::ProcessStream;

constexpr Duration kHeartbeatInterval = std::chrono::seconds{15};

Task<> send_events(NativeExchange& exchange, ProcessStream& stream, http::EventWriter& writer) {
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
      const std::string data = exit_object(*exit);
      co_return co_await writer.send({.name = "exit", .data = data, .id = {}});
    }
    const auto& output = std::get<guest::Output>(*event);
    const std::string data = output_object(output);
    const std::string id = std::to_string(output.header.offset + output.bytes.size());
    CO_TRY_DO(co_await writer.send({.name = "output", .data = data, .id = id}));
  }
}

}  // namespace

bool wants_events(const NativeExchange& exchange) {
  return to_lower(exchange.request().headers.get("Accept")).find("text/event-stream") !=
         std::string::npos;
}

Task<> follow_as_events(NativeExchange& exchange, ProcessStream& stream) {
  http::EventWriter writer{exchange};
  CO_TRY_DO(co_await writer.start());
  // A heartbeat that cannot be sent needs no handling: the next event cannot be sent either, and
  // while there is none the client is watched.
  Scope beating{co_await current_context()};
  beating.on_error([](const char*, const Error&) {});
  beating.spawn("heartbeat", writer.beat(kHeartbeatInterval));
  auto sent = co_await send_events(exchange, stream, writer);
  (void)co_await beating.cancel_and_join();
  if (sent) {
    sent = co_await writer.finish();
  }
  co_return std::move(sent);
}

}  // namespace atl::service::native
