// files/watch without a WebSocket: one watch, a JSON line per change, for clients that have nothing
// but HTTP. The first line says that the watch is set; what is not there cannot be watched. The
// client ends it by going away.
#include "service/native/fields.h"
#include "service/native/file_routes.h"

namespace atl::service::native {

Task<> FileRoutes::watch_lines(NativeExchange& exchange, control::SandboxRef sandbox) {
  const auto& query = exchange.request().query;
  CO_TRY(auto target, parse_file_target(query, contexts_.defaults(sandbox)));
  CO_TRY(const bool recursive, query_boolean(query, "recursive"));
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  CO_TRY(const auto watch, co_await client.watch({.path = std::move(target.path),
                                                  .user = std::move(target.user),
                                                  .recursive = recursive}));
  CO_TRY_DO(co_await start_lines(exchange, 200));
  std::string line =
      Json::object({{"type", "subscribed"}, {"path", std::move(target.requested)}}).dump() + "\n";
  for (;;) {
    CO_TRY_DO(co_await exchange.write(line));
    CO_TRY(auto event, co_await while_client_waits(exchange, watch->next()));
    line = Json::object({{"type", "event"},
                         {"event", file_event_name(event.event)},
                         {"path", std::move(event.path)}})
               .dump() +
           "\n";
  }
}

}  // namespace atl::service::native
