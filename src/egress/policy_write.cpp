// The other half of policy_json.h: values as the document. Empty lists are left out, so what was
// read and written again says what its author wrote.
#include "base/strings.h"
#include "egress/policy_json.h"
#include "egress/policy_words.h"

namespace atl::egress {
namespace {

void set_name(Json& object, const std::string& name) {
  if (!name.empty()) {
    object.set("name", name);
  }
}

void set_array(Json& object, std::string_view name, Json::Array values) {
  if (!values.empty()) {
    object.set(name, std::move(values));
  }
}

void set_strings(Json& object, std::string_view name, const std::vector<std::string>& values) {
  set_array(object, name, Json::Array(values.begin(), values.end()));
}

template <class Value>
void set_texts(Json& object, std::string_view name, const std::vector<Value>& values) {
  Json::Array texts;
  for (const auto& value : values) {
    texts.emplace_back(value.text());
  }
  set_array(object, name, std::move(texts));
}

void set_ports(Json& object, const std::vector<PortRange>& ports) {
  Json::Array values;
  for (const auto& range : ports) {
    Json value = Json::object({{"port", range.first}});
    if (range.last != range.first) {
      value.set("endPort", range.last);
    }
    value.set("protocol", word_of(kTransports, range.transport));
    values.push_back(std::move(value));
  }
  set_array(object, "ports", std::move(values));
}

void set_object(Json& object, std::string_view name, Json value) {
  if (!value.as_object()->empty()) {
    object.set(name, std::move(value));
  }
}

void set_value_matches(Json& object, std::string_view name,
                       const std::vector<ValueMatch>& matches) {
  Json::Array values;
  for (const auto& match : matches) {
    Json value = Json::object({{"name", match.name}});
    set_strings(value, "values", match.values);
    if (match.present) {
      value.set("present", *match.present);
    }
    values.push_back(std::move(value));
  }
  set_array(object, name, std::move(values));
}

void set_http_match(Json& object, const std::optional<HttpMatch>& match) {
  if (!match) {
    return;
  }
  Json value = Json::object();
  set_strings(value, "methods", match->methods);
  set_strings(value, "paths", match->paths);
  set_strings(value, "pathPrefixes", match->path_prefixes);
  set_value_matches(value, "query", match->query);
  set_value_matches(value, "headers", match->headers);
  object.set("httpMatch", std::move(value));
}

Json write_allow_deny(const AllowDeny& lists) {
  Json value = Json::object();
  set_strings(value, "allowed", lists.allowed);
  set_strings(value, "denied", lists.denied);
  return value;
}

Json write_traffic_rule(const TrafficRule& rule) {
  Json object = Json::object();
  set_name(object, rule.name);
  object.set("action", word_of(kActions, rule.action));
  set_texts(object, "cidrs", rule.networks);
  set_texts(object, "domains", rule.domains);
  set_ports(object, rule.ports);
  Json::Array protocols;
  for (const auto protocol : rule.app_protocols) {
    protocols.emplace_back(app_protocol_name(protocol));
  }
  set_array(object, "appProtocols", std::move(protocols));
  return object;
}

Json write_mcp_part(const ProtocolRule& rule) {
  Json mcp = Json::object();
  set_object(mcp, "tools", write_allow_deny(rule.tools));
  Json::Array arguments;
  for (const auto& argument : rule.arguments) {
    arguments.push_back(Json::object(
        {{"tool", argument.tool},
         {"pointer", argument.pointer},
         {"pattern", argument.pattern},
         {"action", word_of(kActions, argument.deny ? Action::kDeny : Action::kAllow)}}));
  }
  set_array(mcp, "arguments", std::move(arguments));
  return mcp;
}

Json write_http_part(const ProtocolRule& rule) {
  Json http = Json::object();
  set_object(http, "methods", write_allow_deny(rule.methods));
  Json paths = write_allow_deny(rule.paths);
  set_strings(paths, "allowedPrefixes", rule.path_prefixes.allowed);
  set_strings(paths, "deniedPrefixes", rule.path_prefixes.denied);
  set_object(http, "paths", std::move(paths));
  return http;
}

Json write_protocol_rule(const ProtocolRule& rule) {
  Json object = Json::object();
  set_name(object, rule.name);
  object.set("protocol", word_of(kRuleProtocols, rule.protocol));
  set_texts(object, "domains", rule.domains);
  set_ports(object, rule.ports);
  object.set("tlsMode", word_of(kTlsModes, rule.tls_mode));
  set_http_match(object, rule.http_match);
  set_object(object, "http", write_http_part(rule));
  set_object(object, "mcp", write_mcp_part(rule));
  return object;
}

Json write_credential_rule(const CredentialRule& rule) {
  Json object = Json::object();
  set_name(object, rule.name);
  object.set("credentialRef", rule.credential_ref);
  object.set("rollout", word_of(kRollouts, rule.enabled));
  object.set("protocol", word_of(kCredentialProtocols, rule.protocol));
  object.set("tlsMode", word_of(kTlsModes, rule.tls_mode));
  object.set("failurePolicy", word_of(kFailurePolicies, rule.fail_open));
  set_texts(object, "domains", rule.domains);
  set_ports(object, rule.ports);
  set_http_match(object, rule.http_match);
  return object;
}

template <class Rule>
void set_rules(Json& egress, std::string_view name, const std::vector<Rule>& rules,
               Json (*write)(const Rule&)) {
  Json::Array values;
  for (const auto& rule : rules) {
    values.push_back(write(rule));
  }
  set_array(egress, name, std::move(values));
}

}  // namespace

Json write_policy(const Policy& policy) {
  Json egress = Json::object();
  set_rules(egress, "trafficRules", policy.traffic_rules, write_traffic_rule);
  set_rules(egress, "protocolRules", policy.protocol_rules, write_protocol_rule);
  set_rules(egress, "credentialRules", policy.credential_rules, write_credential_rule);
  if (policy.proxy) {
    const bool v6 = policy.proxy->host.find(':') != std::string::npos;
    const auto host = v6 ? concat("[", policy.proxy->host, "]") : policy.proxy->host;
    Json proxy =
        Json::object({{"type", "socks5"}, {"address", concat(host, ":", policy.proxy->port)}});
    if (!policy.proxy->credential_ref.empty()) {
      proxy.set("credentialRef", policy.proxy->credential_ref);
    }
    egress.set("proxy", std::move(proxy));
  }
  Json document = Json::object({{"mode", word_of(kModes, policy.mode)}});
  set_object(document, "egress", std::move(egress));
  return document;
}

}  // namespace atl::egress
