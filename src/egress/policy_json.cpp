#include "egress/policy_json.h"

#include <algorithm>

#include "base/strings.h"
#include "egress/policy_words.h"

namespace atl::egress {
namespace {

using Names = std::initializer_list<std::string_view>;

std::unexpected<Error> refuse(const Fields& fields, std::string_view name, std::string_view what) {
  return fail(Code::kInvalidArgument, concat("field \"", fields.path(name), "\": ", what));
}

// The meaning of a field's word, or `otherwise` when the field is absent.
template <class Value, std::size_t kCount>
Result<Value> read_word(const Fields& fields, std::string_view name,
                        const Word<Value> (&words)[kCount], Value otherwise) {
  TRY(const auto text, fields.string(name));
  if (!text) {
    return otherwise;
  }
  std::string known;
  for (const auto& word : words) {
    if (word.text == *text) {
      return word.value;
    }
    known += concat(known.empty() ? "" : ", ", word.text);
  }
  return refuse(fields, name, concat("must be one of ", known));
}

Result<std::vector<std::string>> read_strings(const Fields& fields, std::string_view name) {
  TRY(auto values, fields.strings(name));
  if (values.size() > kMaxMatchersPerRule) {
    return refuse(fields, name, concat("has more than ", kMaxMatchersPerRule, " entries"));
  }
  return values;
}

Result<std::vector<Fields>> read_objects(const Fields& fields, std::string_view name, Names allowed,
                                         std::size_t most) {
  TRY(auto values, fields.objects(name, allowed));
  if (values.size() > most) {
    return refuse(fields, name, concat("has more than ", most, " entries"));
  }
  return values;
}

Result<std::vector<DomainPattern>> read_domains(const Fields& fields, std::string_view name) {
  TRY(const auto texts, read_strings(fields, name));
  std::vector<DomainPattern> patterns;
  for (const auto& text : texts) {
    auto pattern = DomainPattern::parse(text);
    if (!pattern) {
      return refuse(fields, name,
                    concat("\"", to_valid_utf8(text),
                           "\" is no domain; write example.com, *.example.com or *, and an "
                           "international name as xn--"));
    }
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

Result<std::vector<Network>> read_networks(const Fields& fields, std::string_view name) {
  TRY(const auto texts, read_strings(fields, name));
  std::vector<Network> networks;
  for (const auto& text : texts) {
    auto network = Network::parse(text);
    if (!network) {
      return refuse(
          fields, name,
          concat("\"", to_valid_utf8(text), "\" is no range of addresses such as 203.0.113.0/24"));
    }
    networks.push_back(*network);
  }
  return networks;
}

Result<std::vector<PortRange>> read_ports(const Fields& fields, std::string_view name) {
  TRY(const auto objects,
      read_objects(fields, name, {"port", "endPort", "protocol"}, kMaxMatchersPerRule));
  std::vector<PortRange> ports;
  for (const auto& object : objects) {
    TRY(const auto first, object.integer("port", 1, 65535));
    TRY(const auto last, object.integer("endPort", 1, 65535));
    TRY(const auto transport, read_word(object, "protocol", kTransports, Transport::kTcp));
    if (!first || (last && *last < *first)) {
      return refuse(fields, name, "each needs a port, and an endPort that is not below it");
    }
    ports.push_back({static_cast<std::uint16_t>(*first),
                     static_cast<std::uint16_t>(last.value_or(*first)), transport});
  }
  return ports;
}

Result<std::vector<AppProtocol>> read_app_protocols(const Fields& fields, std::string_view name) {
  TRY(const auto texts, read_strings(fields, name));
  std::vector<AppProtocol> protocols;
  for (const auto& text : texts) {
    const auto protocol = app_protocol_of(text);
    if (!protocol) {
      return refuse(fields, name, concat("unknown protocol \"", to_valid_utf8(text), "\""));
    }
    protocols.push_back(*protocol);
  }
  return protocols;
}

Result<TrafficRule> read_traffic_rule(const Fields& fields) {
  TrafficRule rule;
  TRY(auto name, fields.string("name"));
  rule.name = std::move(name).value_or("");
  TRY_DO(fields.required_string("action"));
  TRY(rule.action, read_word(fields, "action", kActions, Action::kDeny));
  TRY(rule.networks, read_networks(fields, "cidrs"));
  TRY(rule.domains, read_domains(fields, "domains"));
  TRY(rule.ports, read_ports(fields, "ports"));
  TRY(rule.app_protocols, read_app_protocols(fields, "appProtocols"));
  if (rule.networks.empty() && rule.domains.empty() && rule.ports.empty() &&
      rule.app_protocols.empty()) {
    return refuse(fields, "action", "the rule needs cidrs, domains, ports or appProtocols");
  }
  return rule;
}

Result<std::vector<ValueMatch>> read_value_matches(const Fields& fields, std::string_view name) {
  TRY(const auto objects,
      read_objects(fields, name, {"name", "values", "present"}, kMaxMatchersPerRule));
  std::vector<ValueMatch> matches;
  for (const auto& object : objects) {
    ValueMatch match;
    TRY(match.name, object.required_string("name"));
    TRY(match.values, read_strings(object, "values"));
    TRY(match.present, object.boolean("present"));
    matches.push_back(std::move(match));
  }
  return matches;
}

Result<std::optional<HttpMatch>> read_http_match(const Fields& fields) {
  if (!fields.has("httpMatch")) {
    return std::nullopt;
  }
  TRY(const auto object,
      fields.object("httpMatch", {"methods", "paths", "pathPrefixes", "query", "headers"}));
  HttpMatch match;
  TRY(match.methods, read_strings(object, "methods"));
  TRY(match.paths, read_strings(object, "paths"));
  TRY(match.path_prefixes, read_strings(object, "pathPrefixes"));
  TRY(match.query, read_value_matches(object, "query"));
  TRY(match.headers, read_value_matches(object, "headers"));
  return std::optional{std::move(match)};
}

Result<> read_http_part(const Fields& fields, ProtocolRule& rule) {
  TRY(const auto http, fields.object("http", {"methods", "paths"}));
  TRY(const auto methods, http.object("methods", {"allowed", "denied"}));
  TRY(rule.methods.allowed, read_strings(methods, "allowed"));
  TRY(rule.methods.denied, read_strings(methods, "denied"));
  TRY(const auto paths,
      http.object("paths", {"allowed", "denied", "allowedPrefixes", "deniedPrefixes"}));
  TRY(rule.paths.allowed, read_strings(paths, "allowed"));
  TRY(rule.paths.denied, read_strings(paths, "denied"));
  TRY(rule.path_prefixes.allowed, read_strings(paths, "allowedPrefixes"));
  TRY(rule.path_prefixes.denied, read_strings(paths, "deniedPrefixes"));
  return {};
}

Result<> read_mcp_part(const Fields& fields, ProtocolRule& rule) {
  TRY(const auto mcp, fields.object("mcp", {"tools", "arguments"}));
  TRY(const auto tools, mcp.object("tools", {"allowed", "denied"}));
  TRY(rule.tools.allowed, read_strings(tools, "allowed"));
  TRY(rule.tools.denied, read_strings(tools, "denied"));
  TRY(const auto arguments, read_objects(mcp, "arguments", {"tool", "pointer", "pattern", "action"},
                                         kMaxMatchersPerRule));
  for (const auto& object : arguments) {
    ArgumentRule argument;
    TRY(argument.tool, object.required_string("tool"));
    TRY(argument.pointer, object.required_string("pointer"));
    TRY(argument.pattern, object.required_string("pattern"));
    TRY(const auto action, read_word(object, "action", kActions, Action::kAllow));
    if (!argument.pointer.starts_with('/') || action == Action::kAsk) {
      return refuse(object, "pointer", "must be a JSON pointer; the action is allow or deny");
    }
    argument.deny = action == Action::kDeny;
    rule.arguments.push_back(std::move(argument));
  }
  return {};
}

Result<ProtocolRule> read_protocol_rule(const Fields& fields) {
  ProtocolRule rule;
  TRY(auto name, fields.string("name"));
  rule.name = std::move(name).value_or("");
  TRY_DO(fields.required_string("protocol"));
  TRY(rule.protocol, read_word(fields, "protocol", kRuleProtocols, RuleProtocol::kHttp));
  TRY(rule.domains, read_domains(fields, "domains"));
  TRY(rule.ports, read_ports(fields, "ports"));
  TRY(rule.tls_mode, read_word(fields, "tlsMode", kTlsModes, TlsMode::kPassthrough));
  TRY(rule.http_match, read_http_match(fields));
  TRY_DO(read_http_part(fields, rule));
  TRY_DO(read_mcp_part(fields, rule));
  const bool other_part =
      rule.protocol == RuleProtocol::kHttp ? fields.has("mcp") : fields.has("http");
  if (other_part) {
    return refuse(fields, "protocol", "the rule has the part of another protocol");
  }
  return rule;
}

Result<CredentialRule> read_credential_rule(const Fields& fields) {
  CredentialRule rule;
  TRY(auto name, fields.string("name"));
  rule.name = std::move(name).value_or("");
  TRY(rule.credential_ref, fields.required_string("credentialRef"));
  TRY(rule.enabled, read_word(fields, "rollout", kRollouts, true));
  TRY(rule.protocol,
      read_word(fields, "protocol", kCredentialProtocols, CredentialProtocol::kHttps));
  TRY(rule.tls_mode, read_word(fields, "tlsMode", kTlsModes, TlsMode::kPassthrough));
  TRY(rule.fail_open, read_word(fields, "failurePolicy", kFailurePolicies, false));
  TRY(rule.domains, read_domains(fields, "domains"));
  TRY(rule.ports, read_ports(fields, "ports"));
  TRY(rule.http_match, read_http_match(fields));
  if (rule.domains.empty()) {
    return refuse(fields, "domains", "a credential needs the domains it may go to");
  }
  return rule;
}

Result<std::optional<UpstreamProxy>> read_proxy(const Fields& egress) {
  if (!egress.has("proxy")) {
    return std::nullopt;
  }
  TRY(const auto object, egress.object("proxy", {"type", "address", "credentialRef"}));
  TRY(const auto type, object.required_string("type"));
  TRY(const auto address, object.required_string("address"));
  TRY(auto ref, object.string("credentialRef"));
  const auto colon = address.rfind(':');
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : parse_u64(std::string_view{address}.substr(colon + 1));
  if (type != "socks5" || !port || *port == 0 || *port > 65535) {
    return refuse(object, "address", "the proxy is of type socks5, its address is host:port");
  }
  UpstreamProxy proxy{.host = address.substr(0, colon),
                      .port = static_cast<std::uint16_t>(*port),
                      .credential_ref = std::move(ref).value_or("")};
  if (proxy.host.starts_with('[') && proxy.host.ends_with(']')) {
    proxy.host = proxy.host.substr(1, proxy.host.size() - 2);
  }
  if (!Address::parse(proxy.host) && !normal_host_name(proxy.host)) {
    return refuse(object, "address", "the host is neither a name nor an address");
  }
  return std::optional{std::move(proxy)};
}

// Under block-all the allowed lists are one allow rule, under allow-all each denied list is a deny.
Result<> read_old_lists(const Fields& egress, Policy& policy) {
  TrafficRule allow{.name = "", .action = Action::kAllow};
  TRY(allow.networks, read_networks(egress, "allowedCidrs"));
  TRY(allow.domains, read_domains(egress, "allowedDomains"));
  TRY(allow.ports, read_ports(egress, "allowedPorts"));
  TrafficRule networks{.action = Action::kDeny};
  TRY(networks.networks, read_networks(egress, "deniedCidrs"));
  TrafficRule domains{.action = Action::kDeny};
  TRY(domains.domains, read_domains(egress, "deniedDomains"));
  TrafficRule ports{.action = Action::kDeny};
  TRY(ports.ports, read_ports(egress, "deniedPorts"));
  const bool allows = !allow.networks.empty() || !allow.domains.empty() || !allow.ports.empty();
  const bool denies =
      !networks.networks.empty() || !domains.domains.empty() || !ports.ports.empty();
  if ((allows || denies) && egress.has("trafficRules")) {
    return refuse(egress, "trafficRules", "cannot be combined with the allowed and denied lists");
  }
  if (policy.mode == Mode::kBlockAll && allows) {
    policy.traffic_rules.push_back(std::move(allow));
  }
  if (policy.mode == Mode::kAllowAll) {
    for (auto* rule : {&networks, &domains, &ports}) {
      if (!rule->networks.empty() || !rule->domains.empty() || !rule->ports.empty()) {
        policy.traffic_rules.push_back(std::move(*rule));
      }
    }
  }
  return {};
}

template <class Rule>
Result<> read_rules(const Fields& egress, std::string_view name, Names allowed,
                    Result<Rule> (*read)(const Fields&), std::vector<Rule>& rules) {
  TRY(const auto objects, read_objects(egress, name, allowed, kMaxRules));
  for (const auto& object : objects) {
    TRY(auto rule, read(object));
    const bool twice = !rule.name.empty() &&
                       std::any_of(rules.begin(), rules.end(),
                                   [&](const Rule& other) { return other.name == rule.name; });
    if (twice) {
      return refuse(egress, name, concat("two rules are named \"", rule.name, "\""));
    }
    rules.push_back(std::move(rule));
  }
  return {};
}

Result<> read_egress(const Fields& egress, Policy& policy) {
  TRY_DO(read_old_lists(egress, policy));
  TRY_DO(read_rules<TrafficRule>(egress, "trafficRules",
                                 {"name", "action", "cidrs", "domains", "ports", "appProtocols"},
                                 read_traffic_rule, policy.traffic_rules));
  TRY_DO(read_rules<ProtocolRule>(
      egress, "protocolRules",
      {"name", "protocol", "domains", "ports", "tlsMode", "httpMatch", "http", "mcp"},
      read_protocol_rule, policy.protocol_rules));
  TRY_DO(read_rules<CredentialRule>(egress, "credentialRules",
                                    {"name", "credentialRef", "rollout", "protocol", "tlsMode",
                                     "failurePolicy", "domains", "ports", "httpMatch"},
                                    read_credential_rule, policy.credential_rules));
  TRY(policy.proxy, read_proxy(egress));
  return {};
}

}  // namespace

Result<Policy> read_policy(const Json& document, std::string where,
                           std::initializer_list<std::string_view> other_fields) {
  // Fields takes a list, so a document with other fields is checked by what remains of it.
  Json own = Json::object();
  TRY_DO(require_object(document, where));
  for (const auto& [name, value] : *document.as_object()) {
    if (std::find(other_fields.begin(), other_fields.end(), name) == other_fields.end()) {
      own.set(name, value);
    }
  }
  TRY(const auto fields, Fields::of(own, std::move(where), {"mode", "egress"}));
  Policy policy;
  TRY_DO(fields.required_string("mode"));
  TRY(policy.mode, read_word(fields, "mode", kModes, Mode::kBlockAll));
  TRY(const auto egress,
      fields.object("egress", {"trafficRules", "protocolRules", "credentialRules", "proxy",
                               "allowedCidrs", "allowedDomains", "allowedPorts", "deniedCidrs",
                               "deniedDomains", "deniedPorts"}));
  TRY_DO(read_egress(egress, policy));
  return policy;
}

}  // namespace atl::egress
