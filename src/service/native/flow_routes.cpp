// Flows: a page of them, newest first, or one line each as they happen. A line comes when a flow is
// decided and again when it ends; `cursor` of the last one goes on from there after a break.
#include "service/native/flow_routes.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "egress/explain.h"
#include "service/native/context_json.h"
#include "service/native/context_lines.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::Permission;

constexpr std::int64_t kDefaultFlows = 100;
constexpr std::array<std::string_view, 4> kKinds{"flow", "dns", "ingress", "peer"};

Result<std::string> query_word(std::string_view query, std::string_view name, const auto& is_word,
                               std::string_view words) {
  std::string text = http::query_value(query, name).value_or("");
  if (!text.empty() && !is_word(text)) {
    return fail(Code::kInvalidArgument, concat("query parameter \"", name, "\" must be ", words));
  }
  return text;
}

Result<control::FlowFilter> parse_filter(std::string_view query) {
  control::FlowFilter filter;
  TRY(filter.from, query_time(query, "start_time"));
  TRY(filter.until, query_time(query, "end_time"));
  TRY(filter.kind,
      query_word(
          query, "kind",
          [](const auto& text) { return std::ranges::find(kKinds, text) != kKinds.end(); },
          "flow, dns, ingress or peer"));
  TRY(filter.outcome,
      query_word(
          query, "outcome", [](const auto& text) { return control::outcome_of(text).has_value(); },
          "open, allowed, denied or failed"));
  TRY(filter.protocol,
      query_word(
          query, "protocol",
          [](const auto& text) { return egress::app_protocol_of(text).has_value(); },
          "an application protocol such as http, tls or ssh"));
  filter.name = to_lower(http::query_value(query, "name").value_or(""));
  filter.rule = http::query_value(query, "rule").value_or("");
  filter.context_id = http::query_value(query, "context_id").value_or("");
  return filter;
}

Result<std::optional<std::int64_t>> query_cursor(std::string_view query) {
  return query_integer(query, "cursor", 0, INT64_MAX);
}

// "example.com:443", "[2001:db8::1]:53", "203.0.113.7"
struct Target {
  egress::Flow flow;
  bool is_address = false;
};
Result<Target> parse_target(std::string_view query) {
  const std::string host = http::query_value(query, "host").value_or("");
  Target target;
  const auto address = egress::Address::parse(
      host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host);
  if (address) {
    target.flow.address = *address;
    target.is_address = true;
  } else if (auto name = egress::normal_host_name(host)) {
    target.flow.name = *std::move(name);
  } else {
    return fail(Code::kInvalidArgument,
                "query parameter \"host\" must be a host name or an address");
  }
  TRY(const auto port, query_integer(query, "port", 1, 65535));
  target.flow.port = static_cast<std::uint16_t>(port.value_or(443));
  const std::string transport = http::query_value(query, "transport").value_or("tcp");
  if (transport != "tcp" && transport != "udp") {
    return fail(Code::kInvalidArgument, "query parameter \"transport\" must be tcp or udp");
  }
  target.flow.transport = transport == "udp" ? egress::Transport::kUdp : egress::Transport::kTcp;
  const std::string protocol = http::query_value(query, "protocol").value_or("");
  const auto known = egress::app_protocol_of(protocol);
  if (!protocol.empty() && !known) {
    return fail(Code::kInvalidArgument,
                "query parameter \"protocol\" must be an application protocol such as http or tls");
  }
  target.flow.protocol = known.value_or(egress::AppProtocol::kUnknown);
  return target;
}

Json explanation_json(const egress::Explanation& explanation, const Target& target) {
  Json layers = Json::array();
  for (const auto& layer : explanation.layers) {
    layers.push(Json::object({{"origin", layer.origin},
                              {"action", egress::action_name(layer.decision.action)},
                              {"rule", layer.decision.rule},
                              {"reason", layer.decision.reason}}));
  }
  Json advice = Json::array();
  for (const auto& line : explanation.advice) {
    advice.push(line);
  }
  const egress::Flow& flow = target.flow;
  return Json::object({{"host", flow.name.empty() ? flow.address.text() : flow.name},
                       {"port", flow.port},
                       {"transport", flow.transport == egress::Transport::kUdp ? "udp" : "tcp"},
                       {"action", egress::action_name(explanation.decision.action)},
                       {"origin", explanation.origin},
                       {"rule", explanation.decision.rule},
                       {"reason", explanation.decision.reason},
                       {"layers", std::move(layers)},
                       {"advice", std::move(advice)}});
}

bool is_silence(const Error& error) {
  return error.code == Code::kDeadlineExceeded && error.reason.empty();
}

}  // namespace

void FlowRoutes::add_to(RouteTable& table) {
  if (parts_.flows == nullptr) {
    return;
  }
  const auto add = [&](std::string_view pattern,
                       Task<> (FlowRoutes::*handler)(NativeExchange&, std::string)) {
    table.add("GET", pattern, Permission::kSandboxRead,
              [this, handler](NativeExchange& e, const http::PathParameters& p) {
                const auto id = p.find("id");
                return (this->*handler)(e, id == p.end() ? std::string{} : id->second);
              });
  };
  add("/api/v1/sandboxes/{id}/network/flows", &FlowRoutes::list);
  add("/api/v1/sandboxes/{id}/network/usage", &FlowRoutes::usage);
  add("/api/v1/sandboxes/{id}/network/why", &FlowRoutes::why);
  add("/api/v1/network/flows", &FlowRoutes::list);
  add("/api/v1/network/flows/{id}", &FlowRoutes::get);
  add("/api/v1/network/usage", &FlowRoutes::usage);
}

Task<> FlowRoutes::list(NativeExchange& exchange, std::string sandbox_id) {
  const std::string& query = exchange.request().query;
  CO_TRY_DO(allow_query(query, {"start_time", "end_time", "kind", "outcome", "protocol", "name",
                                "rule", "context_id", "limit", "cursor", "follow"}));
  CO_TRY(auto filter, parse_filter(query));
  CO_TRY(const bool following, query_boolean(query, "follow"));
  filter.team_id = exchange.principal().team_id;
  filter.sandbox_id = std::move(sandbox_id);
  if (following) {
    co_return co_await follow(exchange, std::move(filter));
  }
  CO_TRY(const auto limit,
         query_integer(query, "limit", 1, static_cast<std::int64_t>(control::kMaxFlowPage)));
  CO_TRY(const auto cursor, query_cursor(query));
  const auto wanted = static_cast<std::size_t>(limit.value_or(kDefaultFlows));
  const std::string id = filter.sandbox_id;
  CO_TRY(const auto flows,
         co_await parts_.flows->newest(std::move(filter), cursor.value_or(0), wanted));
  if (flows.empty() && !id.empty()) {
    // Flows outlive their sandbox; without any, it must at least be there.
    CO_TRY_DO(sandboxes_.get(exchange.principal().team_id, id));
  }
  Json list = Json::array();
  for (const auto& flow : flows) {
    list.push(flow_json(flow));
  }
  Json data = Json::object({{"flows", std::move(list)}, {"count", flows.size()}});
  if (flows.size() == wanted) {
    data.set("next_cursor", std::to_string(flows.back().sequence));
  }
  co_return co_await exchange.respond(data_response(200, std::move(data)));
}

Task<> FlowRoutes::follow(NativeExchange& exchange, control::FlowFilter filter) {
  CO_TRY(auto cursor, query_cursor(exchange.request().query));
  if (!cursor && filter.from) {
    cursor = 0;  // from that time on, which may be long ago
  }
  if (!filter.sandbox_id.empty()) {
    CO_TRY_DO(sandboxes_.get(filter.team_id, filter.sandbox_id));
  }
  CO_TRY(auto follower, co_await parts_.flows->follow(std::move(filter), cursor));
  CO_TRY_DO(co_await start_lines(exchange, 200));
  std::string lines = "\n";  // it is set: nothing is missed from here on
  for (;;) {
    CO_TRY_DO(co_await exchange.write(lines));
    const auto flows =
        co_await with_deadline(kBlankLineInterval, while_followed(exchange, follower.next()));
    if (!flows && !is_silence(flows.error())) {
      co_return fail(flows.error());
    }
    if (exchange.server_stops().is_set()) {
      co_return fail(server_stops_error());
    }
    lines = flows ? "" : "\n";
    for (std::size_t i = 0; flows && i < flows->size(); ++i) {
      lines += flow_json(flows->at(i)).dump() + "\n";
    }
  }
}

Task<> FlowRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto flow, co_await parts_.flows->find(exchange.principal().team_id, id));
  if (!flow) {
    co_return fail(
        Code::kNotFound,
        concat("there is no flow ", to_valid_utf8(id), ", or it is so old that it was forgotten"),
        "flow_not_found");
  }
  co_return co_await exchange.respond(data_response(200, flow_json(*flow)));
}

Task<> FlowRoutes::usage(NativeExchange& exchange, std::string sandbox_id) {
  CO_TRY_DO(allow_query(exchange.request().query, {}));
  const std::string team_id = exchange.principal().team_id;
  CO_TRY(const auto traffic, co_await parts_.flows->traffic(team_id, sandbox_id));
  if (!sandbox_id.empty() && traffic == control::Traffic{}) {
    CO_TRY_DO(sandboxes_.get(team_id, sandbox_id));
  }
  co_return co_await exchange.respond(data_response(200, traffic_json(traffic)));
}

Task<> FlowRoutes::why(NativeExchange& exchange, std::string sandbox_id) {
  const std::string& query = exchange.request().query;
  CO_TRY_DO(allow_query(query, {"host", "port", "transport", "protocol"}));
  const std::string team_id = exchange.principal().team_id;
  CO_TRY(const auto sandbox, sandboxes_.get(team_id, sandbox_id));
  CO_TRY(const Target target, parse_target(query));
  egress::RulesPtr rules;
  if (parts_.rules != nullptr) {
    CO_TRY(rules, co_await parts_.rules->rules(sandbox));
  }
  static const egress::Policy kOpen;
  const std::vector<egress::NamedPolicy> open{{"sandbox", &kOpen}};
  const auto stack = rules == nullptr ? open : rules->stack();
  const egress::AddressGuard guard{parts_.opened, {}};
  const auto closed = target.is_address ? guard.refusal(target.flow.address) : std::nullopt;
  const auto explanation = egress::explain(stack, target.flow, closed);
  co_return co_await exchange.respond(data_response(200, explanation_json(explanation, target)));
}

}  // namespace atl::service::native
