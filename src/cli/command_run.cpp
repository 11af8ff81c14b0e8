// `atoll run`: create, run, and with --rm delete whatever happened in between.
//
// A signal while the sandbox is being created does not abandon the request, as the sandbox might
// come to be without anybody knowing its id: the answer is awaited, then the sandbox is deleted,
// with or without --rm, because nothing has run in it.
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/attached_process.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

Task<int> run_in(CommandContext& context, Interrupts& interrupts, const RunOptions& options,
                 const std::string& id) {
  AttachedProcess process{
      context,
      interrupts,
      {.sandbox_id = id, .process = options.process, .keep_context = options.remove}};
  auto result = co_await process.run().under(interrupts.work());
  if (options.remove) {
    (void)co_await remove_sandbox(context, interrupts, id);
  } else {
    context.console.complain(concat(printable(id), "\n"));
  }
  if (!result) {
    co_return fail(std::move(result).error());
  }
  co_return conclude(context, id, *result);
}

}  // namespace

Task<int> command_run(CommandContext& context, const RunOptions& options) {
  Interrupts interrupts{co_await current_context(), context, 1};
  Api api{context.reactor, context.endpoint};
  auto created = co_await create_sandbox(context, api, options.sandbox).under(interrupts.work());
  Result<int> status = 0;
  if (!created) {
    status = fail(std::move(created).error());
  } else if (interrupts.count() > 0) {
    (void)co_await remove_sandbox(context, interrupts, created->id);
    status = interrupts.exit_status();
  } else {
    status = co_await run_in(context, interrupts, options, created->id);
  }
  (void)co_await interrupts.finish();
  if (!status && interrupts.gave_up()) {
    if (!created) {
      context.console.report("gave up while the server was still creating a sandbox",
                             "`atoll ls` shows whether it came to be");
    }
    co_return interrupts.exit_status();
  }
  co_return std::move(status);
}

}  // namespace atl::cli
