// `atoll inspect`: the API's own record of one sandbox. JSON is its text form too.
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {

Task<int> command_inspect(CommandContext& context, const InspectOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
  CO_TRY(const auto sandbox, co_await api.call("GET", sandbox_path(id)));
  if (context.options.quiet) {
    context.console.print(printable(text_member(sandbox, "id")) + "\n");
  } else {
    context.console.print(sandbox.dump_pretty() + "\n");
  }
  co_return 0;
}

}  // namespace atl::cli
