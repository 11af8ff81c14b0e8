#include "proxy/http/websocket_relay.h"

#include "base/scope.h"
#include "base/strings.h"
#include "http/http1_gate.h"
#include "http/websocket_codec.h"
#include "proxy/http/fields.h"
#include "proxy/http/frame_gate.h"
#include "proxy/http/goodbye.h"
#include "proxy/http/placeholder_guard.h"

namespace atl::proxy::http {
namespace {

constexpr std::size_t kFramePieceBytes = std::size_t{16} * 1024;

// Ends when one side finishes, or sends what is no frame.
Task<> pump(io::Stream& from, const Upgraded& to, bool from_client,
            const std::vector<std::string>& forbidden) {
  FrameGate gate{from_client};
  PlaceholderGuard guard{forbidden};
  const auto buffer = std::make_unique_for_overwrite<char[]>(kFramePieceBytes);
  for (;;) {
    CO_TRY(const auto got, co_await from.read({buffer.get(), kFramePieceBytes}));
    const std::string_view bytes{buffer.get(), got};
    if (bytes.empty()) {
      co_return co_await say_goodbye(*to.below);
    }
    std::string payload;
    CO_TRY_DO(gate.pass(bytes, forbidden.empty() ? nullptr : &payload));
    CO_TRY_DO(guard.feed(payload));
    CO_TRY_DO(co_await to.stream->write(bytes));
  }
}

Task<> pump_and_tell(io::Stream& from, const Upgraded& to, bool from_client,
                     const std::vector<std::string>& forbidden, Event& over) {
  const auto pumped = co_await pump(from, to, from_client, forbidden);
  if (!pumped) {
    over.set();  // the other direction has nobody to talk to
  }
  co_return ok();
}

Task<> wait_for_end(Scope& pumps, Event& over) {
  (void)co_await pumps.join();
  over.set();
  co_return ok();
}

// Until both sides have finished, one is broken, or one has finished and the other stays silent.
Task<> pump_both(const Upgraded& client, const Upgraded& server,
                 const std::vector<std::string>& forbidden) {
  const std::vector<std::string> nothing;
  TaskContext& context = co_await current_context();
  Event over;
  Scope pumps{context};
  Scope waiter{context};
  pumps.spawn("websocket out", pump_and_tell(*client.stream, server, true, forbidden, over));
  pumps.spawn("websocket in", pump_and_tell(*server.stream, client, false, nothing, over));
  waiter.spawn("websocket end", wait_for_end(pumps, over));
  auto waited = co_await over.wait();
  (void)co_await pumps.cancel_and_join();
  (void)co_await waiter.cancel_and_join();
  co_return std::move(waited);
}

bool is_handshake(const ResponseHead& head, const RequestHead& request) {
  return atl::http::list_has_token(head.headers, "upgrade", "websocket") &&
         atl::http::list_has_token(head.headers, "connection", "upgrade") &&
         head.headers.count("sec-websocket-accept") == 1 &&
         head.headers.get("sec-websocket-accept") ==
             atl::http::websocket_accept(request.headers.get("sec-websocket-key"));
}

}  // namespace

Task<> relay_websocket(ClientSide& client, ServerSide& server, const RequestHead& request,
                       ResponseHead head, const std::vector<std::string>& forbidden) {
  if (!is_handshake(head, request)) {
    co_return fail(Code::kUnavailable, "the server's answer is not a WebSocket handshake");
  }
  strip_hop_fields(head.headers);
  CO_TRY(const auto below, co_await client.switch_protocols(std::move(head)));
  CO_TRY(const auto above, co_await server.take_stream());
  co_return co_await pump_both(below, above, forbidden);
}

}  // namespace atl::proxy::http
