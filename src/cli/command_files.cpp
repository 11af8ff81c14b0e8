// `atoll files`: look at and tidy up the files of sandboxes without starting a process there.
#include <algorithm>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/copy.h"
#include "cli/remote_files.h"
#include "cli/sandbox.h"
#include "cli/search_files.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

std::string type_letter(std::string_view type) {
  return type == "dir" ? "d" : type == "symlink" ? "l" : type == "file" ? "-" : "?";
}

std::string with_user(std::string path, const FilesOptions& options) {
  if (!options.user.empty()) {
    path += concat("&user=", http::percent_encode(options.user));
  }
  return path;
}

std::string render_list(const Json& entries) {
  Table table{{"TYPE", "MODE", "SIZE", "MODIFIED", "NAME"}};
  for (const auto& entry : *entries.as_array()) {
    const Json* size = entry.find("size");
    const auto target = text_member(entry, "link_target");
    const auto modified = text_member(entry, "mod_time").substr(0, 19);
    table.add({type_letter(text_member(entry, "type")), printable(text_member(entry, "mode")),
               size != nullptr && size->as_integer() != nullptr ? concat(*size->as_integer())
                                                                : std::string{"-"},
               printable(modified),
               concat(printable(text_member(entry, "name")),
                      target.empty() ? "" : concat(" -> ", printable(target)))});
  }
  return table.render();
}

Task<> list_place(CommandContext& context, Api& api, SandboxPlace place,
                  const FilesOptions& options) {
  const auto path = place.path.empty() ? std::string{"."} : place.path;
  CO_TRY(const auto answer,
         co_await api.call("GET", with_user(file_path(place.sandbox_id, "/list", path), options)));
  const Json* found = answer.find("entries");
  if (found == nullptr || found->as_array() == nullptr) {
    co_return fail(Code::kDataLoss, "the server sent a list without entries");
  }
  Json entries = *found;  // in the order of the filesystem
  std::ranges::sort(*entries.as_array(), {},
                    [](const Json& entry) { return text_member(entry, "name"); });
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
  } else if (context.options.quiet) {
    std::string names;
    for (const auto& entry : *entries.as_array()) {
      names += printable(text_member(entry, "name")) + "\n";
    }
    context.console.print(names);
  } else {
    context.console.print(render_list(entries));
  }
  co_return ok();
}

Task<> read_place(CommandContext& context, Api& api, SandboxPlace place,
                  const FilesOptions& options) {
  RemoteFiles remote{api, place.sandbox_id, options.user};
  CopyTally tally;
  Download download{context, remote, tally};
  CO_TRY_DO(co_await download.run(place.path, "-"));
  co_return ok();
}

Task<> change_place(CommandContext& context, Api& api, SandboxPlace place,
                    const FilesOptions& options) {
  const bool make = options.action == FilesOptions::Action::kMakeDirectory;
  if (!make && !options.recursive) {
    RemoteFiles remote{api, place.sandbox_id, options.user};
    CO_TRY(const auto found, co_await remote.stat(place.path));
    if (found && found->type == RemoteFile::Type::kDirectory) {
      co_return fail(Code::kInvalidArgument, "is a directory; add -r to delete all that is in it");
    }
  }
  auto path = with_user(file_path(place.sandbox_id, "", place.path), options);
  if (make) {
    path += "&mkdir=true&recursive=true";
  }
  CO_TRY_DO(co_await api.call(make ? "POST" : "DELETE", path));
  if (context.options.json) {
    context.console.print(
        Json::object({{"sandbox_id", place.sandbox_id}, {make ? "created" : "deleted", place.path}})
            .dump_pretty() +
        "\n");
  }
  co_return ok();
}

}  // namespace

Task<int> command_files(CommandContext& context, const FilesOptions& options) {
  using Action = FilesOptions::Action;
  Api api{context.reactor, context.endpoint};
  if (context.options.json && options.action == Action::kRead) {
    co_return fail(Code::kInvalidArgument, "a file's bytes and -o json do not go together",
                   kReasonUsage);
  }
  const bool search = options.action == Action::kGlob || options.action == Action::kGrep;
  bool found = false;
  for (auto place : options.places) {
    CO_TRY(place.sandbox_id, co_await resolve_sandbox(api, place.sandbox_id));
    Result<> done;
    if (options.action == Action::kList) {
      done = co_await list_place(context, api, place, options);
    } else if (search) {
      auto some = co_await search_place(context, api, place, options);
      found = found || some.value_or(false);
      done = some ? ok() : fail(std::move(some).error());
    } else if (options.action == Action::kRead) {
      done = co_await read_place(context, api, place, options);
    } else {
      done = co_await change_place(context, api, place, options);
    }
    if (!done) {
      co_return fail(std::move(done).error().note(concat(place.sandbox_id, ":", place.path)));
    }
  }
  co_return search && !found ? 1 : 0;  // as grep says it
}

}  // namespace atl::cli
