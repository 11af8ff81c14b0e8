// `atoll create`: sandboxes, their ids on standard output.
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {

namespace {

Json created_json(const CreatedSandbox& created) {
  Json json = Json::object(
      {{"id", created.id}, {"template", created.template_name}, {"status", created.status}});
  if (!created.name.empty()) {
    json.set("name", created.name);
  }
  return json;
}

Task<int> create_several(CommandContext& context, const CreateOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto all, co_await create_sandboxes(context, api, options.sandbox, options.count));
  Json list = Json::array();
  std::string ids;
  for (const auto& created : all) {
    list.push(created_json(created));
    ids += concat(printable(created.id), "\n");
  }
  context.console.print(context.options.json
                            ? Json::object({{"sandboxes", std::move(list)}}).dump_pretty() + "\n"
                            : ids);
  co_return 0;
}

}  // namespace

Task<int> command_create(CommandContext& context, const CreateOptions& options) {
  if (options.count > 0) {
    co_return co_await create_several(context, options);
  }
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto created, co_await create_sandbox(context, api, options.sandbox));
  context.console.print(context.options.json ? created_json(created).dump_pretty() + "\n"
                                             : concat(printable(created.id), "\n"));
  co_return 0;
}

}  // namespace atl::cli
