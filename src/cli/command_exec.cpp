// `atoll exec`: a command in a sandbox that exists.
#include "cli/attached_process.h"
#include "cli/commands.h"

namespace atl::cli {

Task<int> command_exec(CommandContext& context, const ExecOptions& options) {
  Interrupts interrupts{co_await current_context(), context, 1};
  AttachedProcess process{
      context, interrupts, {.sandbox_id = options.id, .process = options.process}};
  auto result = co_await process.run().under(interrupts.work());
  (void)co_await interrupts.finish();
  if (result) {
    co_return conclude(context, options.id, *result);
  }
  if (interrupts.gave_up()) {
    co_return interrupts.exit_status();
  }
  co_return fail(std::move(result).error());
}

}  // namespace atl::cli
