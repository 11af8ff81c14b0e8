// `atoll net`: what sandboxes send out, as it happens and as it was; policies learned from it and
// drafts tried against it.
#include <unistd.h>

#include "base/clock.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/flow_view.h"
#include "cli/line_stream.h"
#include "cli/sandbox.h"
#include "egress/explain.h"
#include "egress/policy_json.h"

namespace atl::cli {
namespace {

constexpr std::size_t kPage = 1000;
constexpr std::size_t kMaxFlows = 100'000;
constexpr std::size_t kDefaultFlows = 100;

std::string flows_path(std::string_view id, const NetOptions& options) {
  std::string path =
      id.empty() ? std::string{"/api/v1/network/flows?"} : sandbox_path(id, "/network/flows?");
  const auto add = [&path](std::string_view name, std::string_view value) {
    if (!value.empty()) {
      path += concat(path.ends_with('?') ? "" : "&", name, "=", http::percent_encode(value));
    }
  };
  if (options.since_seconds) {
    const auto since = SystemWallClock{}.now() - std::int64_t{*options.since_seconds} * 1000;
    add("start_time", format_unix_millis(since));
  }
  add("outcome", options.outcome);
  add("kind", options.kind);
  add("name", options.name);
  add("rule", options.rule);
  add("protocol", options.protocol);
  return path;
}

// Newest first, page after page.
Task<std::vector<Json>> fetch_flows(Api& api, std::string path, std::size_t most) {
  std::vector<Json> flows;
  std::string cursor;
  while (flows.size() < most) {
    const std::size_t limit = std::min(kPage, most - flows.size());
    const std::string page = concat(path, path.ends_with('?') ? "" : "&", "limit=", limit,
                                    cursor.empty() ? "" : "&cursor=", cursor);
    CO_TRY(const Json answer, co_await api.call("GET", page));
    const Json* list = answer.find("flows");
    if (list == nullptr || list->as_array() == nullptr) {
      co_return fail(Code::kInternal, "the server sent an answer without flows");
    }
    flows.insert(flows.end(), list->as_array()->begin(), list->as_array()->end());
    cursor = text_member(answer, "next_cursor");
    if (cursor.empty()) {
      break;
    }
  }
  co_return std::move(flows);
}

Task<int> watch(CommandContext& context, const NetOptions& options) {
  Api api{context.reactor, context.endpoint};
  std::string id;
  if (!options.subject.empty()) {
    CO_TRY(id, co_await resolve_sandbox(api, options.subject));
  }
  std::string path = flows_path(id, options);
  path += path.ends_with('?') ? "follow=true" : "&follow=true";
  CO_TRY(auto output, SharedWriter::open(context.reactor, context.console.output()));
  CO_TRY(auto response, co_await api.open(std::move(path)));
  LineStream lines{std::move(response)};
  if (!context.options.quiet && !context.options.json) {
    context.console.complain("watching the network; Ctrl-C ends\n");
  }
  for (;;) {
    CO_TRY(const Json flow, co_await lines.next());
    const std::string line =
        context.options.json ? flow.dump() + "\n" : flow_line(context.console, flow, id.empty());
    CO_TRY_DO(co_await output->write(line));
  }
}

Task<int> list(CommandContext& context, const NetOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.subject));
  CO_TRY(const auto flows,
         co_await fetch_flows(api, flows_path(id, options),
                              options.limit == 0 ? kDefaultFlows : options.limit));
  if (context.options.json) {
    Json list = Json::array();
    for (const Json& flow : flows) {
      list.push(flow);
    }
    context.console.print(Json::object({{"flows", std::move(list)}}).dump_pretty() + "\n");
    co_return 0;
  }
  std::string text;
  for (auto flow = flows.rbegin(); flow != flows.rend(); ++flow) {  // the newest below
    text += context.options.quiet ? printable(text_member(*flow, "id")) + "\n"
                                  : flow_line(context.console, *flow, false);
  }
  context.console.print(text);
  co_return 0;
}

std::vector<egress::Observation> observations_of(const std::vector<Json>& flows) {
  std::vector<egress::Observation> seen;
  for (const Json& flow : flows) {
    if (auto observation = observation_of(flow)) {
      seen.push_back(*std::move(observation));
    }
  }
  return seen;
}

Task<int> learn(CommandContext& context, const NetOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.subject));
  CO_TRY(const auto flows, co_await fetch_flows(api, flows_path(id, options), kMaxFlows));
  const auto seen = observations_of(flows);
  const auto lesson =
      egress::learn(seen, {.wildcards = options.wildcards, .include_denied = options.denied});
  context.console.print(write_policy(lesson.policy).dump_pretty() + "\n");
  if (!context.options.quiet) {
    context.console.complain(
        concat("learned from ", lesson.used, " flows",
               lesson.left_out == 0
                   ? std::string{}
                   : concat("; ", lesson.left_out, " that were refused are left out (--denied)"),
               "\n"));
  }
  co_return 0;
}

Result<egress::Policy> read_draft(const std::string& path) {
  TRY(const std::string text, read_local_file(path));
  TRY(Json json, Json::parse(text));
  const Json* inner = json.find("network");
  return egress::read_policy(inner != nullptr ? *inner : json, "policy",
                             {"credentialBindings", "floor", "groups", "generation"});
}

Task<std::vector<Json>> flows_to_test(CommandContext& context, const NetOptions& options) {
  if (::access(options.against.c_str(), R_OK) == 0) {
    CO_TRY(const std::string text, read_local_file(options.against));
    co_return parse_flows(text);
  }
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.against));
  co_return co_await fetch_flows(api, flows_path(id, options), kMaxFlows);
}

std::string target_of(const egress::Flow& flow) {
  return concat(flow.name.empty() ? flow.address.text() : flow.name, ":", flow.port,
                flow.transport == egress::Transport::kUdp ? "/udp" : "");
}

Json change_json(const egress::Change& change, const egress::Observation& seen) {
  return Json::object({{"target", target_of(seen.flow)},
                       {"protocol", app_protocol_name(seen.flow.protocol)},
                       {"was", change.was_allowed ? "allow" : "deny"},
                       {"now", egress::action_name(change.now.action)},
                       {"rule", change.now.rule},
                       {"reason", change.now.reason}});
}

Task<int> test(CommandContext& context, const NetOptions& options) {
  CO_TRY(const egress::Policy draft, read_draft(options.subject));
  CO_TRY(const auto flows, co_await flows_to_test(context, options));
  const auto seen = observations_of(flows);
  const egress::NamedPolicy stack[] = {{"draft", &draft}};
  const auto result = egress::replay(stack, seen);
  const int status = result.denies_what_was_allowed() ? 1 : 0;
  Json list = Json::array();
  std::string text;
  std::string last;
  for (const auto& change : result.changes) {
    list.push(change_json(change, seen[change.index]));
    const std::string line = concat(
        change.was_allowed ? "allowed -> " : "denied  -> ", egress::action_name(change.now.action),
        "  ", printable(target_of(seen[change.index].flow)), "  ", printable(change.now.reason));
    if (line != last) {  // the same flow often comes many times
      const bool worse = change.was_allowed && change.now.action == egress::Action::kDeny;
      text += context.console.paint_output(worse ? Colour::kRed : Colour::kYellow, line) + "\n";
    }
    last = line;
  }
  if (context.options.json) {
    context.console.print(
        Json::object(
            {{"flows", seen.size()}, {"unchanged", result.unchanged}, {"changes", std::move(list)}})
            .dump_pretty() +
        "\n");
    co_return status;
  }
  context.console.print(context.options.quiet ? "" : text);
  context.console.complain(concat(seen.size(), " flows, ", result.unchanged, " as before, ",
                                  result.changes.size(), " would change\n"));
  co_return status;
}

}  // namespace

Task<int> command_net(CommandContext& context, const NetOptions& options) {
  switch (options.action) {
    case NetOptions::Action::kWatch:
      return watch(context, options);
    case NetOptions::Action::kFlows:
      return list(context, options);
    case NetOptions::Action::kLearn:
      return learn(context, options);
    case NetOptions::Action::kTest:
      break;
  }
  return test(context, options);
}

}  // namespace atl::cli
