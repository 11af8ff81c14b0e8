// `atoll watch`: changes of files in a sandbox, one line each, as they happen.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/sandbox.h"
#include "http/websocket.h"

namespace atl::cli {
namespace {

std::string render_event(CommandContext& context, const Json& event) {
  if (context.options.json) {
    return Json::object(
               {{"event", text_member(event, "event")}, {"path", text_member(event, "path")}})
               .dump() +
           "\n";
  }
  const auto name = text_member(event, "event");
  const std::size_t gap = name.size() < 8 ? 8 - name.size() : 1;
  return concat(printable(name), std::string(gap, ' '), printable(text_member(event, "path")),
                "\n");
}

}  // namespace

Task<int> command_watch(CommandContext& context, const WatchOptions& options) {
  using Kind = http::WebSocketMessage::Kind;
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
  CO_TRY(auto output, SharedWriter::open(context.reactor, context.console.output()));
  CO_TRY(auto socket, co_await api.open_socket(sandbox_path(id, "/files/watch")));
  const std::string subscribe =
      Json::object(
          {{"action", "subscribe"}, {"path", options.path}, {"recursive", options.recursive}})
          .dump();
  CO_TRY_DO(co_await socket->send_text(subscribe));
  for (;;) {
    CO_TRY(const auto message, co_await socket->receive());
    if (message.kind == Kind::kClose) {
      // Changes may have been missed meanwhile, so nobody connects again in silence.
      co_return fail(Code::kUnavailable,
                     concat("the server ended the watch", message.payload.empty() ? "" : ": ",
                            message.payload));
    }
    CO_TRY(const auto event, Json::parse(message.payload));
    const auto type = text_member(event, "type");
    if (type == "error") {
      co_return fail(Code::kFailedPrecondition,
                     concat("watching ", options.path, ": ", text_member(event, "error")));
    }
    if (type == "subscribed" && !context.options.quiet && !context.options.json) {
      context.console.complain(concat("watching ", printable(options.path), "; Ctrl-C ends\n"));
    }
    if (type == "event") {
      const auto line = render_event(context, event);
      CO_TRY_DO(co_await output->write(line));
    }
  }
}

}  // namespace atl::cli
