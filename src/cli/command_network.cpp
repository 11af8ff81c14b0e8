// `atoll network`: what a sandbox may reach, shown and replaced.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/whole_input.h"

namespace atl::cli {

Task<int> command_network(CommandContext& context, const NetworkOptions& options) {
  Api api{context.reactor, context.endpoint};
  const std::string path = sandbox_path(options.id, "/network");
  if (!options.set) {
    CO_TRY(const Json policy, co_await api.call("GET", path));
    context.console.print(policy.dump_pretty() + "\n");
    co_return 0;
  }
  CO_TRY(const std::string text, read_whole_input(context.console, options.file));
  auto document = Json::parse(text);
  if (!document) {
    co_return fail(std::move(document).error().note("the policy"));
  }
  CO_TRY(const Json policy, co_await api.call("PUT", path, *std::move(document)));
  if (!context.options.quiet) {
    context.console.print(policy.dump_pretty() + "\n");
  }
  co_return 0;
}

}  // namespace atl::cli
