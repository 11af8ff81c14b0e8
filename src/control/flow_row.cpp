#include "control/flow_row.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/strings.h"
#include "control/flow_log.h"

namespace atl::control {
namespace {

using egress::FlowRecord;
using egress::Outcome;

// Names and reasons come from strangers.
constexpr std::size_t kMaxTextBytes = 1024;

struct OutcomeName {
  Outcome outcome;
  std::string_view name;
};
constexpr std::array<OutcomeName, 4> kOutcomes{{{Outcome::kOpen, "open"},
                                                {Outcome::kAllowed, "allowed"},
                                                {Outcome::kDenied, "denied"},
                                                {Outcome::kFailed, "failed"}}};

std::string bounded(std::string_view text) {
  return to_valid_utf8(text.substr(0, kMaxTextBytes));
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
}

std::int64_t number_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_integer() != nullptr ? *value->as_integer() : 0;
}

// Only what is there: most flows have few of these.
void put(Json& json, std::string_view key, std::string_view text) {
  if (!text.empty()) {
    json.set(key, bounded(text));
  }
}
void put(Json& json, std::string_view key, std::uint64_t number) {
  if (number != 0) {
    json.set(key, number);
  }
}

Json detail_of(const FlowRecord& flow) {
  Json json = Json::object();
  put(json, "duration_ms", static_cast<std::uint64_t>(std::max<std::int64_t>(0, flow.duration_ms)));
  put(json, "transport", flow.transport == egress::Transport::kUdp ? "udp" : "");
  put(json, "source", flow.source);
  put(json, "destination", flow.destination);
  put(json, "dialled", flow.dialled);
  put(json, "origin", flow.origin);
  put(json, "reason", flow.reason);
  put(json, "intercepted", std::uint64_t{flow.intercepted});
  put(json, "credential", flow.credential);
  put(json, "operations_left_out", flow.operations_left_out);
  put(json, "bytes_out", flow.bytes_out);
  put(json, "bytes_in", flow.bytes_in);
  put(json, "pid", static_cast<std::uint64_t>(std::max<std::int64_t>(0, flow.opener.pid)));
  put(json, "program", flow.opener.program);
  if (!flow.operations.empty()) {
    Json operations = Json::array();
    for (const auto& operation : flow.operations) {
      operations.push(bounded(operation));
    }
    json.set("operations", std::move(operations));
  }
  return json;
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  return std::ranges::find(kOutcomes, outcome, &OutcomeName::outcome)->name;
}

std::optional<Outcome> outcome_of(std::string_view name) {
  const auto* found = std::ranges::find(kOutcomes, name, &OutcomeName::name);
  return found == kOutcomes.end() ? std::nullopt : std::optional{found->outcome};
}

store::FlowRow flow_row(const FlowRecord& flow) {
  return {.id = flow.id,
          .sandbox_id = flow.sandbox_id,
          .team_id = flow.team_id,
          .began_at = flow.began_at,
          .kind = flow.kind,
          .protocol = std::string{app_protocol_name(flow.protocol)},
          .name = bounded(flow.name),
          .outcome = std::string{outcome_name(flow.outcome)},
          .rule = bounded(flow.rule),
          .context_id = bounded(flow.opener.context_id),
          .detail = detail_of(flow).dump()};
}

FlowRecord flow_record(const store::FlowRow& row) {
  const auto parsed = Json::parse(row.detail);
  const Json detail = parsed ? *parsed : Json::object();
  FlowRecord flow;
  flow.id = row.id;
  flow.sandbox_id = row.sandbox_id;
  flow.team_id = row.team_id;
  flow.began_at = row.began_at;
  flow.kind = row.kind;
  flow.protocol = egress::app_protocol_of(row.protocol).value_or(egress::AppProtocol::kUnknown);
  flow.name = row.name;
  flow.outcome = outcome_of(row.outcome).value_or(Outcome::kFailed);
  flow.rule = row.rule;
  flow.duration_ms = number_of(detail, "duration_ms");
  flow.transport =
      text_of(detail, "transport") == "udp" ? egress::Transport::kUdp : egress::Transport::kTcp;
  flow.source = text_of(detail, "source");
  flow.destination = text_of(detail, "destination");
  flow.dialled = text_of(detail, "dialled");
  flow.origin = text_of(detail, "origin");
  flow.reason = text_of(detail, "reason");
  flow.intercepted = number_of(detail, "intercepted") != 0;
  flow.credential = text_of(detail, "credential");
  flow.operations_left_out = static_cast<std::uint64_t>(number_of(detail, "operations_left_out"));
  flow.bytes_out = static_cast<std::uint64_t>(number_of(detail, "bytes_out"));
  flow.bytes_in = static_cast<std::uint64_t>(number_of(detail, "bytes_in"));
  flow.opener = {number_of(detail, "pid"), text_of(detail, "program"), row.context_id};
  const Json* operations = detail.find("operations");
  if (operations != nullptr && operations->as_array() != nullptr) {
    for (const Json& operation : *operations->as_array()) {
      flow.operations.push_back(operation.as_string() != nullptr ? *operation.as_string() : "");
    }
  }
  return flow;
}

}  // namespace atl::control
