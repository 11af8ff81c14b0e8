// files/watch without a WebSocket: one watch, a JSON line per change, for clients that have nothing
// but HTTP. The first line says that the watch is set; what is not there cannot be watched. A blank
// line comes when nothing else does. The client ends it by going away.
#include "service/native/fields.h"
#include "service/native/file_routes.h"

namespace atl::service::native {
namespace {

bool is_silence(const Error& error) {
  return error.code == Code::kDeadlineExceeded && error.reason.empty();
}

std::string event_line(const guest::FileEvent& event) {
  return Json::object(
             {{"type", "event"}, {"event", file_event_name(event.event)}, {"path", event.path}})
             .dump() +
         "\n";
}

}  // namespace

Task<> FileRoutes::watch_lines(NativeExchange& exchange, control::PlaceRef place) {
  const auto& query = exchange.request().query;
  CO_TRY(auto target, parse_file_target(query, places_.defaults(place)));
  CO_TRY(const bool recursive, query_boolean(query, "recursive"));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY(const auto watch, co_await files->watch({.path = std::move(target.path),
                                                  .user = std::move(target.user),
                                                  .recursive = recursive}));
  CO_TRY_DO(co_await start_lines(exchange, 200));
  std::string line =
      Json::object({{"type", "subscribed"}, {"path", std::move(target.requested)}}).dump() + "\n";
  for (;;) {
    CO_TRY_DO(co_await exchange.write(line));
    // An event that the deadline cuts off stays in the channel for the next turn.
    auto event =
        co_await with_deadline(kBlankLineInterval, while_followed(exchange, watch->next()));
    if (!event && !is_silence(event.error())) {
      co_return fail(std::move(event).error());
    }
    if (exchange.server_stops().is_set()) {
      co_return fail(server_stops_error());  // also while there is always more
    }
    line = event ? event_line(*event) : "\n";
  }
}

}  // namespace atl::service::native
