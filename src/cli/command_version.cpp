// `atoll version`: needs no server.
#include "base/json.h"
#include "base/strings.h"
#include "cli/commands.h"

namespace atl::cli {

Task<int> command_version(CommandContext& context, const VersionOptions&) {
  const auto& version = context.environment.version;
  if (context.options.json) {
    context.console.print(Json::object({{"version", version}}).dump_pretty() + "\n");
  } else {
    context.console.print(context.options.quiet ? concat(version, "\n")
                                                : concat("atoll ", version, "\n"));
  }
  co_return 0;
}

}  // namespace atl::cli
