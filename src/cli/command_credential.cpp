// `atoll credential`: secrets that are put into requests on their way out. They are read from a
// file or standard input: arguments are visible to every user of the host.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/whole_input.h"

namespace atl::cli {
namespace {

using Action = CredentialOptions::Action;

std::string source_path(std::string_view name) {
  return concat("/api/v1/credential-sources", name.empty() ? "" : "/", http::percent_encode(name));
}

// With --key the input is the value itself; else it is {"resolverKind": …, "spec": {…}}.
Result<Json> read_source(const CommandContext& context, const CredentialOptions& options) {
  const std::string file = options.names.size() > 1 ? options.names[1] : "-";
  TRY(std::string text, read_whole_input(context.console, file));
  if (!options.key.empty()) {
    while (text.ends_with('\n') || text.ends_with('\r')) {
      text.pop_back();
    }
    Json values = Json::object();
    values.set(options.key, std::move(text));
    return Json::object(
        {{"resolverKind", "static_headers"},
         {"spec",
          Json::object({{"staticHeaders", Json::object({{"values", std::move(values)}})}})}});
  }
  auto body = Json::parse(text);
  if (!body || body->as_object() == nullptr) {
    // What was read is a secret, which the parser's message might repeat.
    return fail(Code::kInvalidArgument,
                concat(file,
                       " is no JSON object {\"resolverKind\": …, \"spec\": {…}}; with --key "
                       "NAME it would be the value itself"));
  }
  return body;
}

Task<int> write_source(CommandContext& context, const CredentialOptions& options) {
  Api api{context.reactor, context.endpoint};
  const std::string& name = options.names[0];
  CO_TRY(Json body, read_source(context, options));
  body.set("name", name);
  const bool create = options.action == Action::kCreate;
  CO_TRY(const Json source, co_await api.call(create ? "POST" : "PUT",
                                              source_path(create ? "" : name), std::move(body)));
  context.console.print(context.options.json ? source.dump_pretty() + "\n"
                                             : printable(name) + "\n");
  co_return 0;
}

Task<int> list_sources(CommandContext& context) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json sources, co_await api.call("GET", source_path("")));
  if (context.options.json || sources.as_array() == nullptr) {
    context.console.print(sources.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"CREDENTIAL", "KIND", "VERSION", "STATUS", "CHANGED"}};
  std::string names;
  for (const Json& source : *sources.as_array()) {
    const auto updated = parse_rfc3339(text_member(source, "updatedAt"));
    const Json* const version = source.find("currentVersion");
    names += printable(text_member(source, "name")) + "\n";
    table.add({printable(text_member(source, "name")),
               printable(text_member(source, "resolverKind")),
               version == nullptr ? "-" : version->dump(), printable(text_member(source, "status")),
               updated ? concat(format_age((now - *updated) / 1000), " ago") : "-"});
  }
  context.console.print(context.options.quiet ? names : table.render());
  co_return 0;
}

Task<Json> remove_one(Api& api, std::string name) {
  CO_TRY_DO(co_await api.call("DELETE", source_path(name)));
  co_return name;
}

Task<int> remove_sources(CommandContext& context, const CredentialOptions& options) {
  Api api{context.reactor, context.endpoint};
  const Batch batch{.doing = "deleting credentials",
                    .done = "deleted",
                    .act = [&](std::string word) { return remove_one(api, std::move(word)); }};
  co_return co_await run_batch(context, options.names, batch);
}

}  // namespace

Task<int> command_credential(CommandContext& context, const CredentialOptions& options) {
  switch (options.action) {
    case Action::kCreate:
    case Action::kRotate:
      return write_source(context, options);
    case Action::kRemove:
      return remove_sources(context, options);
    case Action::kList:
      break;
  }
  return list_sources(context);
}

}  // namespace atl::cli
