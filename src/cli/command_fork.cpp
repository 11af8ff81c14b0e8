// `atoll fork`: new sandboxes that begin as another one is now; their ids on standard output.
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

Json fork_body(const ForkOptions& options) {
  Json body = Json::object({{"count", options.count}});
  if (options.start) {
    body.set("start", true);
  }
  if (options.memory == "processes") {
    body.set("memory", true);
  } else if (options.memory == "interpreters") {
    body.set("memory", "interpreters");
  }
  Json config = Json::object();
  if (options.ttl_seconds) {
    config.set("ttl", *options.ttl_seconds);
  }
  if (options.hard_ttl_seconds) {
    config.set("hard_ttl", *options.hard_ttl_seconds);
  }
  if (!config.as_object()->empty()) {
    body.set("config", std::move(config));
  }
  return body;
}

// What of the interpreters did not come along, and why.
void report_left_behind(const CommandContext& context, const Json& answer) {
  const Json* interpreters = answer.find("interpreters");
  if (interpreters == nullptr || interpreters->as_array() == nullptr || context.options.quiet) {
    return;
  }
  for (const auto& each : *interpreters->as_array()) {
    const auto why = text_member(each, "reason");
    const auto note = why.empty() ? text_member(each, "note") : why;
    if (!note.empty()) {
      context.console.report(concat(printable(text_member(each, "alias")), " ",
                                    printable(text_member(each, "context_id")), ": ",
                                    printable(note)));
    }
  }
}

}  // namespace

Task<int> command_fork(CommandContext& context, const ForkOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
  CO_TRY(
      const Json answer,
      co_await with_progress(
          context.console, context.options.quiet,
          [&options] { return concat("forking ", printable(options.id), " into ", options.count); },
          api.call("POST", sandbox_path(id, "/fork"), fork_body(options), kStateDeadline)));
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
    co_return 0;
  }
  const Json* children = answer.find("sandboxes");
  if (children == nullptr || children->as_array() == nullptr) {
    co_return fail(Code::kInternal, "the server made forks but did not say their ids");
  }
  std::string ids;
  for (const auto& child : *children->as_array()) {
    ids += printable(text_member(child, "id")) + "\n";
  }
  context.console.print(ids);
  report_left_behind(context, answer);
  co_return 0;
}

}  // namespace atl::cli
