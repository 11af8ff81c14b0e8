#include "cli/flow_view.h"

#include "base/clock.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

std::int64_t number_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_integer() != nullptr ? *value->as_integer() : 0;
}

Colour colour_of(std::string_view outcome) {
  return outcome == "denied"    ? Colour::kRed
         : outcome == "failed"  ? Colour::kYellow
         : outcome == "allowed" ? Colour::kGreen
                                : Colour::kNone;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// "example.com:443": the name with the port that was asked for.
std::string target_of(const Json& flow) {
  const std::string name = text_member(flow, "name");
  const std::string destination = text_member(flow, "destination");
  if (name.empty()) {
    return printable(destination);
  }
  if (text_member(flow, "kind") == "dns") {
    return printable(name);
  }
  const auto colon = destination.rfind(':');
  return printable(concat(name, colon == std::string::npos ? "" : destination.substr(colon)));
}

Result<> take_flows(const Json& json, std::vector<Json>& flows) {
  const Json* list = json.find("flows");
  if (list == nullptr && json.as_array() != nullptr) {
    list = &json;
  }
  if (list != nullptr && list->as_array() != nullptr) {
    flows.insert(flows.end(), list->as_array()->begin(), list->as_array()->end());
    return {};
  }
  if (json.find("outcome") == nullptr) {
    return fail(Code::kInvalidArgument,
                "these are no flows, as `atoll net flows -o json` gives them");
  }
  flows.push_back(json);
  return {};
}

}  // namespace

std::string flow_line(const Console& console, const Json& flow, bool with_sandbox) {
  const std::string outcome = text_member(flow, "outcome");
  const std::string began = text_member(flow, "began_at");
  const Json* process = flow.find("process");
  std::string line = concat(
      console.paint_output(Colour::kDim, began.substr(0, 19)), " ",
      console.paint_output(colour_of(outcome), padded(outcome, 7)), " ",
      padded(text_member(flow, "kind") == "dns" ? "dns" : printable(text_member(flow, "protocol")),
             8),
      " ");
  if (with_sandbox) {
    line += concat(printable(text_member(flow, "sandbox_id")), " ");
  }
  line += target_of(flow);
  if (process != nullptr) {
    line += concat("  ", printable(text_member(*process, "program")));
  }
  const auto bytes_out = number_of(flow, "bytes_out");
  const auto bytes_in = number_of(flow, "bytes_in");
  if (bytes_out != 0 || bytes_in != 0) {
    line += concat("  ", format_bytes(static_cast<unsigned long long>(bytes_out)), " out, ",
                   format_bytes(static_cast<unsigned long long>(bytes_in)), " in");
  }
  if (outcome == "denied" || outcome == "failed") {
    line += concat("  ", printable(text_member(flow, "reason")), "  ",
                   console.paint_output(Colour::kDim, printable(text_member(flow, "id"))));
  }
  return line + "\n";
}

std::optional<AddressAndPort> parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const auto address = egress::Address::parse(host);
  const auto port = parse_u64(text.substr(colon + 1));
  if (!address || !port || *port == 0 || *port > 65535) {
    return std::nullopt;
  }
  return AddressAndPort{*address, static_cast<std::uint16_t>(*port)};
}

std::optional<egress::Observation> observation_of(const Json& flow) {
  const std::string kind = text_member(flow, "kind");
  const std::string origin = text_member(flow, "origin");
  const auto asked = parse_endpoint(text_member(flow, "destination"));
  const auto dialled = parse_endpoint(text_member(flow, "dialled"));
  const bool by_policy = origin != "class" && origin != "limit" && origin != "dns";
  if ((kind != "flow" && kind != "peer") || !by_policy || !asked) {
    return std::nullopt;
  }
  egress::Observation seen;
  seen.flow.transport =
      text_member(flow, "transport") == "udp" ? egress::Transport::kUdp : egress::Transport::kTcp;
  seen.flow.address = dialled ? dialled->address : asked->address;
  seen.flow.port = asked->port;
  seen.flow.name = egress::normal_host_name(text_member(flow, "name")).value_or("");
  seen.flow.protocol = egress::app_protocol_of(text_member(flow, "protocol"))
                           .value_or(egress::AppProtocol::kUnknown);
  seen.has_address = true;
  seen.allowed = text_member(flow, "outcome") != "denied";
  const Json* intercepted = flow.find("intercepted");
  seen.intercepted =
      intercepted != nullptr && intercepted->as_bool() != nullptr && *intercepted->as_bool();
  return seen;
}

Result<std::vector<Json>> parse_flows(std::string_view text) {
  std::vector<Json> flows;
  if (const auto whole = Json::parse(text)) {
    TRY_DO(take_flows(*whole, flows));
    return flows;
  }
  for (const auto line : split(text, '\n')) {
    if (trim(line).empty()) {
      continue;
    }
    TRY(const Json json, Json::parse(line));
    TRY_DO(take_flows(json, flows));
  }
  return flows;
}

}  // namespace atl::cli
