// `atoll resume`: paused sandboxes go on. What could not continue and began again is said.
#include "base/strings.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

Task<Json> resume_one(CommandContext& context, Api& api, std::string word) {
  CO_TRY(const auto id, co_await resolve_sandbox(api, word));
  CO_TRY(const Json answer,
         co_await api.call("POST", sandbox_path(id, "/resume"), Json::object(), kStateDeadline));
  if (text_member(answer, "restored") == "filesystem" && !context.options.json &&
      !context.options.quiet) {
    const auto reason = text_member(answer, "reason");
    context.console.report(concat(word, ": its files are there, its processes began again",
                                  reason.empty() ? "" : ": ", printable(reason)));
  }
  co_return answer;
}

}  // namespace

Task<int> command_resume(CommandContext& context, const ResumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  const Batch batch{.doing = "resuming", .done = "resumed", .act = [&](std::string word) {
                      return resume_one(context, api, std::move(word));
                    }};
  co_return co_await run_batch(context, options.ids, batch);
}

}  // namespace atl::cli
