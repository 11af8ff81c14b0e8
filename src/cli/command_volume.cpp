// `atoll volume`: directories that outlive sandboxes: make, list, fork, snapshot, restore, delete.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/volume.h"

namespace atl::cli {
namespace {

using Action = VolumeOptions::Action;

void print_made(const CommandContext& context, const Json& answer) {
  context.console.print(context.options.json ? answer.dump_pretty() + "\n"
                                             : printable(text_member(answer, "id")) + "\n");
}

// The keys come from the environment: arguments are visible to every user of the host.
Json s3_body(const VolumeOptions& options) {
  const auto slash = options.s3_bucket.find('/');
  Json s3 = Json::object({{"bucket", options.s3_bucket.substr(0, slash)},
                          {"access_key", options.s3_access_key},
                          {"secret_key", options.s3_secret_key}});
  if (slash != std::string::npos) {
    s3.set("prefix", options.s3_bucket.substr(slash + 1));
  }
  for (const auto& [key, value] :
       {std::pair{"endpoint_url", options.s3_endpoint}, std::pair{"region", options.s3_region},
        std::pair{"session_token", options.s3_session_token}}) {
    if (!value.empty()) {
      s3.set(key, value);
    }
  }
  return s3;
}

Json volume_body(const VolumeOptions& options) {
  Json body = Json::object();
  for (const auto& [key, value] :
       {std::pair{"access_mode", options.access_mode}, std::pair{"size", options.size},
        std::pair{"snapshot_id", options.snapshot_id}}) {
    if (!value.empty()) {
      body.set(key, value);
    }
  }
  if (options.uid) {
    body.set("default_posix_uid", *options.uid);
  }
  if (options.gid) {
    body.set("default_posix_gid", *options.gid);
  }
  if (!options.s3_bucket.empty()) {
    body.set("backend", "s3");
    body.set("s3", s3_body(options));
  }
  return body;
}

Task<int> create_volume(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json answer, co_await api.call("POST", volume_path(""), volume_body(options)));
  print_made(context, answer);
  co_return 0;
}

Task<int> fork_volume(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json answer, co_await api.call("POST", volume_path(options.names[0], "/fork"),
                                              volume_body(options), kStateDeadline));
  print_made(context, answer);
  co_return 0;
}

std::string held_bytes(const Json& volume, std::string_view key) {
  const Json* bytes = volume.find(key);
  return bytes == nullptr || bytes->as_integer() == nullptr
             ? std::string{"-"}
             : format_bytes(static_cast<unsigned long long>(*bytes->as_integer()));
}

Task<int> list_volumes(CommandContext& context) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json volumes, co_await api.call("GET", volume_path("")));
  if (context.options.json || volumes.as_array() == nullptr) {
    context.console.print(volumes.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"VOLUME", "MODE", "BACKEND", "USED", "SIZE", "AGE", "MOUNTED IN"}};
  std::string ids;
  for (const Json& volume : *volumes.as_array()) {
    const auto created = parse_rfc3339(text_member(volume, "created_at"));
    const Json* mounted = volume.find("mounted_in");
    std::string where;
    if (mounted != nullptr && mounted->as_array() != nullptr) {
      for (const Json& sandbox : *mounted->as_array()) {
        where += concat(where.empty() ? "" : ",",
                        sandbox.as_string() == nullptr ? "?" : printable(*sandbox.as_string()));
      }
    }
    ids += printable(text_member(volume, "id")) + "\n";
    table.add({printable(text_member(volume, "id")), printable(text_member(volume, "access_mode")),
               printable(text_member(volume, "backend")),
               held_bytes(volume, "metered_storage_bytes"), held_bytes(volume, "size_bytes"),
               created ? format_age((now - *created) / 1000) : "-", where.empty() ? "-" : where});
  }
  context.console.print(context.options.quiet ? ids : table.render());
  co_return 0;
}

Task<int> show_volume(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json answer, co_await api.call("GET", volume_path(options.names[0])));
  context.console.print(answer.dump_pretty() + "\n");
  co_return 0;
}

Task<Json> remove_one(Api& api, std::string id, bool force) {
  auto deleted = co_await api.call("DELETE", volume_path(id, force ? "?force=true" : ""));
  if (!deleted && !(force && deleted.error().code == Code::kNotFound)) {
    co_return fail(std::move(deleted).error());
  }
  co_return id;
}

Task<int> remove_volumes(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  const Batch batch{.doing = "deleting volumes", .done = "deleted", .act = [&](std::string word) {
                      return remove_one(api, std::move(word), options.force);
                    }};
  co_return co_await run_batch(context, options.names, batch);
}

std::string snapshots_path(const std::string& volume, std::string_view snapshot = {},
                           std::string_view rest = {}) {
  return concat(volume_path(volume, "/snapshots"), snapshot.empty() ? "" : "/",
                http::percent_encode(snapshot), rest);
}

Task<int> take_snapshot(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  const std::int64_t now_ms = SystemWallClock{}.now();
  Json body = Json::object(
      {{"name", options.name.empty() ? format_rfc3339(now_ms / 1000, 0) : options.name}});
  if (!options.description.empty()) {
    body.set("description", options.description);
  }
  if (options.expires_seconds) {
    body.set("expires_at", format_rfc3339(now_ms / 1000 + *options.expires_seconds, 0));
  }
  CO_TRY(const Json answer, co_await api.call("POST", snapshots_path(options.names[0]),
                                              std::move(body), kStateDeadline));
  print_made(context, answer);
  co_return 0;
}

Task<int> list_snapshots(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json snapshots, co_await api.call("GET", snapshots_path(options.names[0])));
  if (context.options.json || snapshots.as_array() == nullptr) {
    context.console.print(snapshots.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"SNAPSHOT", "NAME", "SIZE", "AGE", "DESCRIPTION"}};
  std::string ids;
  for (const Json& snapshot : *snapshots.as_array()) {
    const auto created = parse_rfc3339(text_member(snapshot, "created_at"));
    ids += printable(text_member(snapshot, "id")) + "\n";
    table.add({printable(text_member(snapshot, "id")), printable(text_member(snapshot, "name")),
               held_bytes(snapshot, "size_bytes"),
               created ? format_age((now - *created) / 1000) : "-",
               printable(text_member(snapshot, "description"))});
  }
  context.console.print(context.options.quiet ? ids : table.render());
  co_return 0;
}

Task<int> restore_volume(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  Json body = Json::object();
  if (options.force) {
    body.set("force", true);
  }
  CO_TRY(const Json answer,
         co_await api.call("POST", snapshots_path(options.names[0], options.names[1], "/restore"),
                           std::move(body), kStateDeadline));
  context.console.print(context.options.json ? answer.dump_pretty() + "\n"
                                             : printable(options.names[0]) + "\n");
  co_return 0;
}

Task<Json> forget_one(Api& api, std::string volume, std::string snapshot) {
  CO_TRY_DO(co_await api.call("DELETE", snapshots_path(volume, snapshot)));
  co_return snapshot;
}

Task<int> forget_snapshots(CommandContext& context, const VolumeOptions& options) {
  Api api{context.reactor, context.endpoint};
  const std::vector<std::string> snapshots{options.names.begin() + 1, options.names.end()};
  const Batch batch{.doing = "deleting snapshots", .done = "deleted", .act = [&](std::string word) {
                      return forget_one(api, options.names[0], std::move(word));
                    }};
  co_return co_await run_batch(context, snapshots, batch);
}

}  // namespace

std::string volume_path(std::string_view id, std::string_view rest) {
  return concat("/api/v1/sandboxvolumes", id.empty() ? "" : "/", http::percent_encode(id), rest);
}

Task<int> command_volume(CommandContext& context, const VolumeOptions& options) {
  switch (options.action) {
    case Action::kCreate:
      return create_volume(context, options);
    case Action::kList:
      return list_volumes(context);
    case Action::kShow:
      return show_volume(context, options);
    case Action::kCopy:
      return copy_volume_files(context, options);
    case Action::kFork:
      return fork_volume(context, options);
    case Action::kSnapshot:
      return take_snapshot(context, options);
    case Action::kSnapshots:
      return list_snapshots(context, options);
    case Action::kRestore:
      return restore_volume(context, options);
    case Action::kForget:
      return forget_snapshots(context, options);
    case Action::kRemove:
      break;
  }
  return remove_volumes(context, options);
}

}  // namespace atl::cli
