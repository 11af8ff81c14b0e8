// `atoll ls`: the sandboxes this key can see, in the server's order.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/sandbox.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

bool is_current(const Json& sandbox) {
  const auto status = text_member(sandbox, "status");
  return status != "failed" && status != "terminating";
}

// The earlier of the two clocks that end a sandbox's activity.
std::string expires_in(const Json& sandbox, UnixMillis now) {
  std::optional<UnixMillis> first;
  for (const auto* key : {"expires_at", "hard_expires_at"}) {
    const auto when = parse_rfc3339(text_member(sandbox, key));
    if (when && (!first || *when < *first)) {
      first = when;
    }
  }
  return first ? concat("in ", format_age((*first - now) / 1000)) : "never";
}

std::string memory_of(const Json& sandbox) {
  const Json* resources = sandbox.find("resources");
  const auto memory = resources == nullptr ? std::string{} : text_member(*resources, "memory");
  return memory.empty() ? "-" : memory;
}

Colour colour_of(std::string_view status) {
  if (status.starts_with("running")) {
    return Colour::kGreen;
  }
  return status.starts_with("failed") ? Colour::kRed : Colour::kYellow;
}

std::string render(const std::vector<Json>& sandboxes, const Console& console) {
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"ID", "TEMPLATE", "STATUS", "AGE", "EXPIRES", "MEMORY"}};
  for (const auto& sandbox : sandboxes) {
    const auto created = parse_rfc3339(text_member(sandbox, "created_at"));
    table.add({printable(text_member(sandbox, "id")),
               printable(text_member(sandbox, "template_id")),
               printable(text_member(sandbox, "status")),
               created ? format_age((now - *created) / 1000) : "-", expires_in(sandbox, now),
               printable(memory_of(sandbox))});
  }
  return table.render([&console](std::size_t, std::size_t column, std::string_view cell) {
    return console.paint_output(column == 2 ? colour_of(cell) : Colour::kNone, cell);
  });
}

}  // namespace

Task<int> command_list(CommandContext& context, const ListOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(auto sandboxes, co_await list_sandboxes(api, options.labels));
  if (!options.all) {
    std::erase_if(sandboxes, [](const Json& sandbox) { return !is_current(sandbox); });
  }
  if (context.options.json) {
    const auto count = sandboxes.size();
    context.console.print(
        Json::object({{"sandboxes", Json{std::move(sandboxes)}}, {"count", count}}).dump_pretty() +
        "\n");
  } else if (context.options.quiet) {
    std::string ids;
    for (const auto& sandbox : sandboxes) {
      ids += printable(text_member(sandbox, "id")) + "\n";
    }
    context.console.print(ids);
  } else {
    context.console.print(render(sandboxes, context.console));
  }
  co_return 0;
}

}  // namespace atl::cli
