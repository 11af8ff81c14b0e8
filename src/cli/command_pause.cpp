// `atoll pause`: sandboxes stand still; their processes stay in memory, go to disk, or end.
#include "base/strings.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

Json pause_body(const std::string& memory) {
  Json body = Json::object();
  if (memory == "disk") {
    body.set("memory", "disk");
  } else {
    body.set("memory", memory != "none");
  }
  return body;
}

Task<Json> pause_one(CommandContext& context, Api& api, std::string word, std::string memory) {
  CO_TRY(const auto id, co_await resolve_sandbox(api, word));
  CO_TRY(const Json answer,
         co_await api.call("POST", sandbox_path(id, "/pause"), pause_body(memory), kStateDeadline));
  // A process tree that cannot be dumped stays in memory; whoever wanted it on disk is told.
  const auto reason = text_member(answer, "reason");
  if (!reason.empty() && !context.options.json && !context.options.quiet) {
    context.console.report(concat(word, ": ", printable(reason)));
  }
  co_return answer;
}

}  // namespace

Task<int> command_pause(CommandContext& context, const PauseOptions& options) {
  Api api{context.reactor, context.endpoint};
  const Batch batch{.doing = "pausing", .done = "paused", .act = [&](std::string word) {
                      return pause_one(context, api, std::move(word), options.memory);
                    }};
  co_return co_await run_batch(context, options.ids, batch);
}

}  // namespace atl::cli
