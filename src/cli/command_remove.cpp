// `atoll rm`: deletes one after another; one that fails does not keep the others.
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

struct Outcome {
  Json deleted = Json::array();
  Json failed = Json::array();
  std::size_t done = 0;
  int status = 0;
};

Task<> remove_all(CommandContext& context, Api& api, const std::vector<std::string>& ids,
                  bool force, Outcome& outcome) {
  for (const auto& id : ids) {
    CO_TRY(const auto target, co_await resolve_sandbox(api, id));
    auto deleted = co_await delete_sandbox(api, target);
    ++outcome.done;
    if (deleted || (force && deleted.error().code == Code::kNotFound)) {
      outcome.deleted.push(id);
      if (!context.options.json) {
        context.console.print(printable(id) + "\n");
      }
      continue;
    }
    const auto& error = deleted.error();
    if (error.code == Code::kCancelled || error.reason == kReasonTransport) {
      co_return fail(error);  // no point in trying the others
    }
    outcome.status = code_exit_status(error.code);
    outcome.failed.push(
        Json::object({{"id", id}, {"code", code_name(error.code)}, {"message", error.message}}));
    context.console.report(concat(id, ": ", error.message), hint_for(error, context.endpoint));
  }
  co_return ok();
}

}  // namespace

Task<int> command_remove(CommandContext& context, const RemoveOptions& options) {
  Api api{context.reactor, context.endpoint};
  auto ids = options.ids;
  if (options.all) {
    CO_TRY(const auto sandboxes, co_await list_sandboxes(api, {}));
    for (const auto& sandbox : sandboxes) {
      ids.push_back(text_member(sandbox, "id"));
    }
  }
  Outcome outcome;
  CO_TRY_DO(co_await with_progress(
      context.console, context.options.quiet,
      [&outcome, &ids] { return concat("deleting sandboxes: ", outcome.done, " of ", ids.size()); },
      remove_all(context, api, ids, options.force || options.all, outcome)));
  if (context.options.json) {
    context.console.print(Json::object({{"deleted", std::move(outcome.deleted)},
                                        {"failed", std::move(outcome.failed)}})
                              .dump_pretty() +
                          "\n");
  }
  co_return outcome.status;
}

}  // namespace atl::cli
