// `atoll exec`: a command in a sandbox that exists.
#include "cli/attached_process.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {

Task<int> command_exec(CommandContext& context, const ExecOptions& options) {
  Interrupts interrupts{co_await current_context(), context, 1};
  Api api{context.reactor, context.endpoint};
  auto id = co_await resolve_sandbox(api, options.id).under(interrupts.work());
  Result<ProcessResult> result;
  if (id) {
    AttachedProcess process{context, interrupts, {.sandbox_id = *id, .process = options.process}};
    result = co_await process.run().under(interrupts.work());
  } else {
    result = fail(std::move(id).error());
  }
  (void)co_await interrupts.finish();
  if (result) {
    co_return conclude(context, *id, *result);
  }
  if (interrupts.gave_up()) {
    co_return interrupts.exit_status();
  }
  co_return fail(std::move(result).error());
}

}  // namespace atl::cli
