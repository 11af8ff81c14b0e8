// `atoll rm`: deletes one after another; one that fails does not keep the others.
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

Task<Json> remove_one(Api& api, std::string word, bool force) {
  CO_TRY(const auto id, co_await resolve_sandbox(api, word));
  auto deleted = co_await delete_sandbox(api, id);
  if (!deleted && !(force && deleted.error().code == Code::kNotFound)) {
    co_return fail(std::move(deleted).error());
  }
  co_return word;
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
  const bool force = options.force || options.all;
  const Batch batch{.doing = "deleting sandboxes", .done = "deleted", .act = [&](std::string word) {
                      return remove_one(api, std::move(word), force);
                    }};
  co_return co_await run_batch(context, ids, batch);
}

}  // namespace atl::cli
