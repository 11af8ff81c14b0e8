// `atoll export`: a sandbox or a snapshot as an image that other tools read.
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/sandbox.h"
#include "cli/save_body.h"

namespace atl::cli {

Task<int> command_export(CommandContext& context, const ExportOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(std::string path, co_await resolve_state_path(api, options.id));
  path += concat("/export?layer_only=", options.layer_only ? "true" : "false");
  if (!options.compression.empty()) {
    path += concat("&compression=", options.compression);
  }
  co_return co_await save_body(context, std::move(path), options.file,
                               concat("exporting ", printable(options.id)));
}

}  // namespace atl::cli
