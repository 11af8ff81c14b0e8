// `atoll snapshot`: moments of a sandbox's files: take, list, show, go back to, delete.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/sandbox.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

std::string snapshot_path(std::string_view id) {
  return concat("/api/v1/sandbox-rootfs-snapshots/", http::percent_encode(id));
}

Task<Json> snapshots_of(Api& api, std::string sandbox_id) {
  CO_TRY(Json answer, co_await api.call("GET", sandbox_path(sandbox_id, "/snapshots")));
  const Json* snapshots = answer.find("snapshots");
  if (snapshots == nullptr || snapshots->as_array() == nullptr) {
    co_return fail(Code::kInternal, "the server sent a list without snapshots");
  }
  co_return answer;
}

// The id of a snapshot that a person called by its id or, where the sandbox is known, by its name.
Task<std::string> resolve_snapshot(Api& api, std::string sandbox_id, std::string word) {
  if (word.starts_with("snap-")) {
    co_return word;
  }
  CO_TRY(const Json answer, co_await snapshots_of(api, std::move(sandbox_id)));
  std::string found;
  for (const auto& snapshot : *answer.find("snapshots")->as_array()) {
    if (text_member(snapshot, "name") == word) {
      if (!found.empty()) {
        co_return fail(Code::kFailedPrecondition,
                       concat("several snapshots are called ", word,
                              "; take one by its id from `atoll snapshot ls`"));
      }
      found = text_member(snapshot, "id");
    }
  }
  co_return found.empty() ? word : found;
}

Task<int> create_snapshot(CommandContext& context, const SnapshotOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.names[0]));
  Json body = Json::object();
  if (!options.name.empty()) {
    body.set("name", options.name);
  }
  if (!options.description.empty()) {
    body.set("description", options.description);
  }
  if (options.expires_seconds) {
    const auto seconds = SystemWallClock{}.now() / 1000 + *options.expires_seconds;
    body.set("expires_at", format_rfc3339(static_cast<std::time_t>(seconds), 0));
  }
  CO_TRY(
      const Json answer,
      co_await with_progress(
          context.console, context.options.quiet, [] { return std::string{"taking a snapshot"}; },
          api.call("POST", sandbox_path(id, "/snapshots"), std::move(body), kStateDeadline)));
  context.console.print(context.options.json ? answer.dump_pretty() + "\n"
                                             : printable(text_member(answer, "id")) + "\n");
  co_return 0;
}

Task<int> list_snapshots(CommandContext& context, const SnapshotOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.names[0]));
  CO_TRY(const Json answer, co_await snapshots_of(api, id));
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"SNAPSHOT", "NAME", "AGE", "EXPIRES", "DESCRIPTION"}};
  std::string ids;
  for (const auto& snapshot : *answer.find("snapshots")->as_array()) {
    const auto created = parse_rfc3339(text_member(snapshot, "created_at"));
    const auto expires = parse_rfc3339(text_member(snapshot, "expires_at"));
    const auto name = text_member(snapshot, "name");
    ids += printable(text_member(snapshot, "id")) + "\n";
    table.add({printable(text_member(snapshot, "id")), name.empty() ? "-" : printable(name),
               created ? format_age((now - *created) / 1000) : "-",
               expires ? concat("in ", format_age((*expires - now) / 1000)) : "never",
               printable(text_member(snapshot, "description"))});
  }
  context.console.print(context.options.quiet ? ids : table.render());
  co_return 0;
}

Task<int> show_snapshot(CommandContext& context, const SnapshotOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json answer, co_await api.call("GET", snapshot_path(options.names[0])));
  context.console.print(answer.dump_pretty() + "\n");
  co_return 0;
}

Task<int> restore_snapshot(CommandContext& context, const SnapshotOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.names[0]));
  CO_TRY(const auto snapshot, co_await resolve_snapshot(api, id, options.names[1]));
  Json body = Json::object({{"snapshot_id", snapshot}});
  if (options.force) {
    body.set("force", true);
  }
  CO_TRY(
      const Json answer,
      co_await with_progress(
          context.console, context.options.quiet,
          [&options] { return concat("restoring ", printable(options.names[0])); },
          api.call("POST", sandbox_path(id, "/rootfs/restore"), std::move(body), kStateDeadline)));
  context.console.print(context.options.json ? answer.dump_pretty() + "\n" : printable(id) + "\n");
  co_return 0;
}

Task<Json> remove_one(Api& api, std::string id, bool force) {
  auto deleted = co_await api.call("DELETE", snapshot_path(id));
  if (!deleted && !(force && deleted.error().code == Code::kNotFound)) {
    co_return fail(std::move(deleted).error());
  }
  co_return id;
}

Task<int> remove_snapshots(CommandContext& context, const SnapshotOptions& options) {
  Api api{context.reactor, context.endpoint};
  const Batch batch{.doing = "deleting snapshots", .done = "deleted", .act = [&](std::string word) {
                      return remove_one(api, std::move(word), options.force);
                    }};
  co_return co_await run_batch(context, options.names, batch);
}

}  // namespace

Task<int> command_snapshot(CommandContext& context, const SnapshotOptions& options) {
  switch (options.action) {
    case SnapshotOptions::Action::kCreate:
      return create_snapshot(context, options);
    case SnapshotOptions::Action::kList:
      return list_snapshots(context, options);
    case SnapshotOptions::Action::kShow:
      return show_snapshot(context, options);
    case SnapshotOptions::Action::kRestore:
      return restore_snapshot(context, options);
    case SnapshotOptions::Action::kRemove:
      break;
  }
  return remove_snapshots(context, options);
}

}  // namespace atl::cli
