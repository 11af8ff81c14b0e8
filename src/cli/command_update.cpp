// `atoll update`: limits, lifetimes, environment and labels of a sandbox that runs.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {

Task<int> command_update(CommandContext& context, const UpdateOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
  CO_TRY(const auto answer,
         co_await api.call("PATCH", sandbox_path(id),
                           Json::object({{"config", sandbox_config(options.sandbox)}})));
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
  } else if (context.options.quiet) {
    context.console.print(concat(printable(text_member(answer, "id")), "\n"));
  }
  co_return 0;
}

}  // namespace atl::cli
