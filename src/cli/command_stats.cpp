// `atoll stats`: what sandboxes use, once or, with -w, again and again.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/sandbox.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

constexpr std::chrono::seconds kRefreshInterval{2};
constexpr std::string_view kClearScreen = "\x1b[H\x1b[2J";

struct Usage {
  std::string id;
  std::string name;
  Json current;  // null: nothing has been measured yet
};

double number_member(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  return member == nullptr ? 0 : member->as_number().value_or(0);
}

std::string hundredths(double value) {
  const auto scaled = static_cast<long long>(value * 100 + 0.5);
  const auto fraction = scaled % 100;
  return concat(scaled / 100, ".", fraction < 10 ? "0" : "", fraction);
}

std::string part_of(const Json& json, std::string_view used, std::string_view limit) {
  const auto bytes = [&json](std::string_view key) {
    return format_bytes(static_cast<unsigned long long>(number_member(json, key)));
  };
  return number_member(json, limit) > 0 ? concat(bytes(used), " / ", bytes(limit)) : bytes(used);
}

std::string render(const std::vector<Usage>& all) {
  Table table{{"SANDBOX", "NAME", "CPU", "MEMORY", "DISK", "PROCESSES"}};
  for (const auto& usage : all) {
    const auto& now = usage.current;
    const auto name = usage.name.empty() ? "-" : printable(usage.name);
    if (now.is_null()) {
      table.add({printable(usage.id), name, "-", "-", "-", "-"});
      continue;
    }
    table.add({printable(usage.id), name,
               concat(hundredths(number_member(now, "cpu_cores")), " / ",
                      hundredths(number_member(now, "cpu_limit_cores"))),
               part_of(now, "memory_working_set_bytes", "memory_limit_bytes"),
               part_of(now, "disk_bytes", "disk_limit_bytes"),
               concat(static_cast<long long>(number_member(now, "process_count")))});
  }
  return table.render();
}

Task<std::vector<Usage>> measure(Api& api, const StatsOptions& options) {
  std::vector<Usage> all;
  if (!options.id.empty()) {
    CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
    CO_TRY(const auto sandbox, co_await api.call("GET", sandbox_path(id)));
    all.push_back({text_member(sandbox, "id"), text_member(sandbox, "name"), {}});
  } else {
    CO_TRY(const auto sandboxes, co_await list_sandboxes(api, {}));
    for (const auto& sandbox : sandboxes) {
      if (text_member(sandbox, "status") == "running") {
        all.push_back({text_member(sandbox, "id"), text_member(sandbox, "name"), {}});
      }
    }
  }
  for (auto& usage : all) {
    auto answer = co_await api.call("GET", sandbox_path(usage.id, "/metrics"));
    if (!answer && (answer.error().code != Code::kNotFound || !options.id.empty())) {
      co_return fail(std::move(answer).error());  // one of many may have gone meanwhile
    }
    const Json* current = answer ? answer->find("current") : nullptr;
    if (current != nullptr) {
      usage.current = *current;
    }
  }
  co_return all;
}

void show(CommandContext& context, const std::vector<Usage>& all, bool again) {
  if (!context.options.json) {
    const bool redraw = again && context.console.output_is_terminal();
    context.console.print(concat(redraw ? kClearScreen : std::string_view{}, render(all)));
    return;
  }
  Json list = Json::array();
  for (const auto& usage : all) {
    list.push(Json::object({{"id", usage.id}, {"name", usage.name}, {"current", usage.current}}));
  }
  const auto document = Json::object({{"sandboxes", std::move(list)}});
  context.console.print((again ? document.dump() : document.dump_pretty()) + "\n");
}

}  // namespace

Task<int> command_stats(CommandContext& context, const StatsOptions& options) {
  Api api{context.reactor, context.endpoint};
  for (;;) {
    CO_TRY(const auto all, co_await measure(api, options));
    show(context, all, options.watch);
    if (!options.watch) {
      co_return 0;
    }
    CO_TRY_DO(co_await sleep_for(kRefreshInterval));
  }
}

}  // namespace atl::cli
