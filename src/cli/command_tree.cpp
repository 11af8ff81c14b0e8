// `atoll tree`: who came from whom, drawn.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "cli/tree_drawing.h"

namespace atl::cli {
namespace {

std::string ago(std::string_view time, UnixMillis now) {
  const auto when = parse_rfc3339(time);
  return when ? concat(format_age((now - *when) / 1000), " ago") : std::string{};
}

// "rs-x  build  running  fork  2m ago"
std::string describe_node(const Json& node, const Console& console, UnixMillis now) {
  const bool snapshot = text_member(node, "kind") == "snapshot";
  const bool gone = !text_member(node, "deleted_at").empty();
  std::string text = printable(text_member(node, "id"));
  if (const auto name = text_member(node, "name"); !name.empty()) {
    text += concat("  ", printable(name));
  }
  const auto status = gone       ? std::string{"deleted"}
                      : snapshot ? "snapshot"
                                 : text_member(node, "status");
  text += concat("  ", console.paint_output(gone                  ? Colour::kDim
                                            : snapshot            ? Colour::kYellow
                                            : status == "running" ? Colour::kGreen
                                                                  : Colour::kNone,
                                            printable(status)));
  const auto cause = text_member(node, "cause");
  if (cause == "template") {
    text += concat("  from ", printable(text_member(node, "template_id")));
  } else if (!snapshot) {
    text += cause == "claim" ? "  from the snapshot" : "  fork";
  }
  text += concat("  ", ago(text_member(node, gone ? "deleted_at" : "created_at"), now));
  const Json* restores = node.find("restores");
  if (restores != nullptr && restores->as_array() != nullptr && !restores->as_array()->empty()) {
    const Json& last = restores->as_array()->back();
    text += concat("  restored to ", printable(text_member(last, "snapshot_id")), " ",
                   ago(text_member(last, "restored_at"), now));
  }
  return text;
}

}  // namespace

Task<int> command_tree(CommandContext& context, const TreeOptions& options) {
  Api api{context.reactor, context.endpoint};
  std::string path = "/api/v1/sandbox-trees";
  if (!options.id.empty()) {
    CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
    path = sandbox_path(id, "/tree");
  }
  CO_TRY(const Json answer, co_await api.call("GET", path));
  const Json* nodes = answer.find("nodes");
  if (context.options.json || nodes == nullptr || nodes->as_array() == nullptr) {
    context.console.print(answer.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  std::vector<TreeRow> rows;
  for (const Json& node : *nodes->as_array()) {
    const Json* depth = node.find("depth");
    const bool known = depth != nullptr && depth->as_integer() != nullptr;
    rows.push_back(
        {.depth =
             known ? static_cast<std::size_t>(std::max<std::int64_t>(*depth->as_integer(), 0)) : 0,
         .text = context.options.quiet ? printable(text_member(node, "id"))
                                       : describe_node(node, context.console, now)});
  }
  context.console.print(draw_tree(std::move(rows), locale_is_utf8()));
  co_return 0;
}

}  // namespace atl::cli
