// `atoll why`: why a flow was refused, or why a connection would be.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/flow_view.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

struct HostPort {
  std::string host;
  std::string port;  // empty: not said
};

// "example.com:80", "[2001:db8::1]:80", "2001:db8::1"
HostPort split_host(std::string_view text) {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end != std::string_view::npos) {
      const auto rest = text.substr(end + 1);
      return {std::string{text.substr(1, end - 1)},
              std::string{rest.starts_with(':') ? rest.substr(1) : std::string_view{}}};
    }
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
    return {std::string{text}, {}};
  }
  return {std::string{text.substr(0, colon)}, std::string{text.substr(colon + 1)}};
}

Task<Json> ask(Api& api, std::string id, HostPort target, const WhyOptions& options) {
  std::string path =
      concat(sandbox_path(id, "/network/why"), "?host=", http::percent_encode(target.host));
  if (!target.port.empty()) {
    path += concat("&port=", http::percent_encode(target.port));
  }
  if (!options.protocol.empty()) {
    path += concat("&protocol=", http::percent_encode(options.protocol));
  }
  path += options.udp ? "&transport=udp" : "";
  co_return co_await api.call("GET", std::move(path));
}

std::string render(const Console& console, const Json& answer) {
  const std::string action = text_member(answer, "action");
  const Colour colour = action == "allow" ? Colour::kGreen
                        : action == "ask" ? Colour::kYellow
                                          : Colour::kRed;
  std::string text = concat(console.paint_output(colour, action), "  ",
                            printable(text_member(answer, "reason")), "\n");
  const Json* layers = answer.find("layers");
  for (std::size_t i = 0;
       layers != nullptr && layers->as_array() != nullptr && i < layers->as_array()->size(); ++i) {
    const Json& layer = layers->as_array()->at(i);
    text += concat("  ", printable(text_member(layer, "origin")), ": ",
                   printable(text_member(layer, "action")), " by ",
                   printable(text_member(layer, "rule")), "\n");
  }
  const Json* advice = answer.find("advice");
  for (std::size_t i = 0;
       advice != nullptr && advice->as_array() != nullptr && i < advice->as_array()->size(); ++i) {
    const auto* line = advice->as_array()->at(i).as_string();
    text += concat("hint: ", printable(line != nullptr ? *line : ""), "\n");
  }
  return text;
}

// A flow that was: what decided it then, and what would now.
Task<int> explain_flow(CommandContext& context, Api& api, const WhyOptions& options) {
  CO_TRY(const Json flow, co_await api.call("GET", concat("/api/v1/network/flows/",
                                                          http::percent_encode(options.words[0]))));
  const std::string destination = text_member(flow, "destination");
  const std::string name = text_member(flow, "name");
  HostPort target = split_host(destination);
  if (!name.empty()) {
    target.host = name;
  }
  WhyOptions now = options;
  now.udp = text_member(flow, "transport") == "udp";
  if (const auto protocol = text_member(flow, "protocol"); protocol != "unknown") {
    now.protocol = protocol;
  }
  // Gone with its sandbox, or a name that cannot be one: then only what was is known.
  const auto answer = co_await ask(api, text_member(flow, "sandbox_id"), target, now);
  if (context.options.json) {
    Json both = Json::object({{"flow", flow}});
    if (answer) {
      both.set("now", *answer);
    }
    context.console.print(both.dump_pretty() + "\n");
  } else {
    std::string text = concat(
        flow_line(context.console, flow, true), "  ", printable(text_member(flow, "origin")), ": ",
        printable(text_member(flow, "rule")), "\n  ", printable(text_member(flow, "reason")), "\n");
    if (answer) {
      text += concat("now: ", render(context.console, *answer));
    }
    context.console.print(text);
  }
  co_return text_member(flow, "outcome") == "denied" ? 1 : 0;
}

}  // namespace

Task<int> command_why(CommandContext& context, const WhyOptions& options) {
  Api api{context.reactor, context.endpoint};
  if (options.words.size() == 1) {
    co_return co_await explain_flow(context, api, options);
  }
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.words[0]));
  CO_TRY(const Json answer, co_await ask(api, id, split_host(options.words[1]), options));
  context.console.print(context.options.json ? answer.dump_pretty() + "\n"
                                             : render(context.console, answer));
  co_return text_member(answer, "action") == "allow" ? 0 : 1;
}

}  // namespace atl::cli
