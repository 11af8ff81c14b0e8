// `atoll create`: one sandbox, its id on standard output.
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {

Task<int> command_create(CommandContext& context, const CreateOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto created, co_await create_sandbox(context, api, options.sandbox));
  if (context.options.json) {
    context.console.print(
        Json::object(
            {{"id", created.id}, {"template", created.template_name}, {"status", created.status}})
            .dump_pretty() +
        "\n");
  } else {
    context.console.print(concat(printable(created.id), "\n"));
  }
  co_return 0;
}

}  // namespace atl::cli
