#include "egress/decision.h"

#include <algorithm>

#include "base/strings.h"
#include "egress/request_path.h"

namespace atl::egress {
namespace {

bool has_port(const std::vector<PortRange>& ports, Transport transport, std::uint16_t port) {
  return ports.empty() || std::any_of(ports.begin(), ports.end(), [&](const PortRange& range) {
           return range.transport == transport && range.first <= port && port <= range.last;
         });
}

bool has_domain(const std::vector<DomainPattern>& domains, std::string_view name) {
  return domains.empty() ||
         (!name.empty() && std::any_of(domains.begin(), domains.end(),
                                       [&](const auto& pattern) { return pattern.matches(name); }));
}

bool covers(const TrafficRule& rule, const Flow& flow) {
  // A rule without a port speaks about both transports.
  return has_port(rule.ports, flow.transport, flow.port) && has_domain(rule.domains, flow.name) &&
         (rule.networks.empty() ||
          std::any_of(rule.networks.begin(), rule.networks.end(),
                      [&](const Network& network) { return network.contains(flow.address); })) &&
         (rule.app_protocols.empty() ||
          std::find(rule.app_protocols.begin(), rule.app_protocols.end(), flow.protocol) !=
              rule.app_protocols.end());
}

template <class Rule>
bool covers_flow(const Rule& rule, const Flow& flow) {
  return has_port(rule.ports, flow.transport, flow.port) && has_domain(rule.domains, flow.name);
}

std::string rule_title(const std::string& name, std::string_view list, std::size_t index) {
  return name.empty() ? concat(list, "[", index, "]") : name;
}

std::string target_text(const Flow& flow) {
  return concat(flow.name.empty() ? flow.address.text() : flow.name, ":", flow.port);
}

Decision decide_one(const NamedPolicy& named, const Flow& flow) {
  const auto& rules = named.policy->traffic_rules;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!covers(rules[i], flow)) {
      continue;
    }
    auto title = rule_title(rules[i].name, "trafficRules", i);
    auto verb = rules[i].action == Action::kAllow ? "allows "
                : rules[i].action == Action::kAsk ? "asks about "
                                                  : "denies ";
    auto reason =
        concat("rule ", title, " of the ", named.origin, " policy ", verb, target_text(flow));
    return {rules[i].action, std::move(title), std::move(reason)};
  }
  if (named.policy->mode == Mode::kAllowAll) {
    return {Action::kAllow, "mode", concat("the ", named.origin, " policy allows all")};
  }
  return {Action::kDeny, "mode",
          concat("no rule of the ", named.origin, " policy allows ", target_text(flow),
                 flow.name.empty() ? " (its name is unknown)" : "")};
}

int strictness(Action action) {
  return action == Action::kDeny ? 2 : action == Action::kAsk ? 1 : 0;
}

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What is denied is denied however it is written: some servers do not mind the case.
bool contains_ignore_case(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::any_of(list, [&](const auto& one) { return equals_ignore_case(one, value); });
}

// "/repos" and "/repos/" cover "/repos/x"; neither covers "/repository".
bool path_has_prefix(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) {
    return false;
  }
  return prefix.ends_with('/') || path.size() == prefix.size() || path[prefix.size()] == '/';
}

bool has_prefix_in(const std::vector<std::string>& prefixes, std::string_view path) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return path_has_prefix(path, prefix); });
}

bool value_match(const ValueMatch& match, std::span<const NameValue> pairs, bool ignore_case) {
  bool seen = false;
  bool wanted = false;
  for (const auto& pair : pairs) {
    if (ignore_case ? equals_ignore_case(pair.name, match.name) : pair.name == match.name) {
      seen = true;
      wanted = wanted || contains(match.values, pair.value);
    }
  }
  if (match.present && *match.present != seen) {
    return false;
  }
  return match.values.empty() ? (match.present.has_value() || seen) : wanted;
}

// Empty when the rule has nothing against the request.
std::string http_violation(const ProtocolRule& rule, const RequestFacts& request) {
  if (contains_ignore_case(rule.methods.denied, request.method)) {
    return concat("the method ", request.method, " is denied");
  }
  if (!rule.methods.allowed.empty() && !contains(rule.methods.allowed, request.method)) {
    return concat("the method ", request.method, " is not allowed");
  }
  for (const auto& path : {std::string{request.path}, path_without_parameters(request.path)}) {
    if (contains(rule.paths.denied, path) || has_prefix_in(rule.path_prefixes.denied, path)) {
      return "the path is denied";
    }
  }
  const bool paths_are_listed = !rule.paths.allowed.empty() || !rule.path_prefixes.allowed.empty();
  if (paths_are_listed && !contains(rule.paths.allowed, request.path) &&
      !has_prefix_in(rule.path_prefixes.allowed, request.path)) {
    return "the path is not allowed";
  }
  return {};
}

bool covers_request(const ProtocolRule& rule, const Flow& flow, const RequestFacts& request) {
  return covers_flow(rule, flow) && (!rule.http_match || http_match(*rule.http_match, request));
}

}  // namespace

Decision decide(PolicyStack policies, const Flow& flow) {
  if (policies.empty()) {
    return {Action::kDeny, "mode", "there is no policy"};
  }
  Decision strictest = decide_one(policies.front(), flow);
  for (const auto& named : policies.subspan(1)) {
    auto decision = decide_one(named, flow);
    // Of equals the last speaks: the sandbox's own rules are what its user can look up.
    if (strictness(decision.action) >= strictness(strictest.action)) {
      strictest = std::move(decision);
    }
  }
  return strictest;
}

bool asks_for_contents(PolicyStack policies, Transport transport, std::uint16_t port) {
  return std::any_of(policies.begin(), policies.end(), [&](const NamedPolicy& named) {
    const auto& policy = *named.policy;
    const auto at_port = [&](const auto& rule) { return has_port(rule.ports, transport, port); };
    return std::any_of(policy.traffic_rules.begin(), policy.traffic_rules.end(),
                       [&](const TrafficRule& rule) {
                         return at_port(rule) &&
                                (!rule.domains.empty() || !rule.app_protocols.empty());
                       }) ||
           std::any_of(policy.protocol_rules.begin(), policy.protocol_rules.end(), at_port) ||
           std::any_of(policy.credential_rules.begin(), policy.credential_rules.end(),
                       [&](const CredentialRule& rule) { return rule.enabled && at_port(rule); });
  });
}

bool may_resolve(PolicyStack policies, std::string_view name) {
  if (policies.empty()) {
    return false;
  }
  return std::all_of(policies.begin(), policies.end(), [&](const NamedPolicy& named) {
    const bool open = named.policy->mode == Mode::kAllowAll;
    for (const auto& rule : named.policy->traffic_rules) {
      if (rule.domains.empty() || !has_domain(rule.domains, name)) {
        continue;
      }
      if (rule.action != Action::kDeny) {
        return true;
      }
      // A deny of some ports or protocols only leaves the others.
      if (rule.ports.empty() && rule.networks.empty() && rule.app_protocols.empty()) {
        return false;
      }
    }
    return open;
  });
}

Interception interception(PolicyStack policies, const Flow& flow) {
  Interception answer;
  for (const auto& named : policies) {
    for (std::size_t i = 0; i < named.policy->protocol_rules.size(); ++i) {
      const auto& rule = named.policy->protocol_rules[i];
      if (!covers_flow(rule, flow)) {
        continue;
      }
      if (rule.tls_mode == TlsMode::kTerminate) {
        answer.terminate = true;
      } else if (answer.blind_rule.empty()) {
        answer.blind_rule = rule_title(rule.name, "protocolRules", i);
      }
    }
    for (const auto& rule : named.policy->credential_rules) {
      const bool inside_tls = rule.protocol == CredentialProtocol::kHttps ||
                              rule.protocol == CredentialProtocol::kGrpc ||
                              rule.protocol == CredentialProtocol::kTls;
      answer.terminate =
          answer.terminate || (rule.enabled && inside_tls && rule.tls_mode == TlsMode::kTerminate &&
                               covers_flow(rule, flow));
    }
  }
  if (answer.terminate) {
    answer.blind_rule.clear();
  }
  return answer;
}

bool http_match(const HttpMatch& match, const RequestFacts& request) {
  const bool method = match.methods.empty() || contains(match.methods, request.method);
  const bool path = (match.paths.empty() && match.path_prefixes.empty()) ||
                    contains(match.paths, request.path) ||
                    has_prefix_in(match.path_prefixes, request.path);
  return method && path &&
         std::all_of(
             match.query.begin(), match.query.end(),
             [&](const ValueMatch& one) { return value_match(one, request.query, false); }) &&
         std::all_of(match.headers.begin(), match.headers.end(), [&](const ValueMatch& one) {
           return value_match(one, request.headers, true);
         });
}

Decision decide_request(PolicyStack policies, const Flow& flow, const RequestFacts& request) {
  Decision allowed{Action::kAllow, "mode", "no protocol rule speaks about it"};
  for (const auto& named : policies) {
    const auto& rules = named.policy->protocol_rules;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (rules[i].protocol != RuleProtocol::kHttp || !covers_request(rules[i], flow, request)) {
        continue;
      }
      auto title = rule_title(rules[i].name, "protocolRules", i);
      auto violation = http_violation(rules[i], request);
      if (!violation.empty()) {
        auto reason = concat(violation, " by rule ", title, " of the ", named.origin, " policy");
        return {Action::kDeny, std::move(title), std::move(reason)};
      }
      allowed = {Action::kAllow, std::move(title), "a protocol rule allows it"};
      break;
    }
  }
  return allowed;
}

bool looks_at_paths(PolicyStack policies, const Flow& flow) {
  const auto match_does = [](const std::optional<HttpMatch>& match) {
    return match && (!match->paths.empty() || !match->path_prefixes.empty());
  };
  const auto protocol_rule_does = [&](const ProtocolRule& rule) {
    return covers_flow(rule, flow) &&
           (match_does(rule.http_match) || !rule.paths.allowed.empty() ||
            !rule.paths.denied.empty() || !rule.path_prefixes.allowed.empty() ||
            !rule.path_prefixes.denied.empty());
  };
  const auto credential_rule_does = [&](const CredentialRule& rule) {
    return rule.enabled && covers_flow(rule, flow) && match_does(rule.http_match);
  };
  return std::ranges::any_of(policies, [&](const NamedPolicy& named) {
    return std::ranges::any_of(named.policy->protocol_rules, protocol_rule_does) ||
           std::ranges::any_of(named.policy->credential_rules, credential_rule_does);
  });
}

std::vector<const ProtocolRule*> mcp_rules(PolicyStack policies, const Flow& flow,
                                           const RequestFacts& request) {
  std::vector<const ProtocolRule*> found;
  for (const auto& named : policies) {
    for (const auto& rule : named.policy->protocol_rules) {
      if (rule.protocol == RuleProtocol::kMcp && covers_request(rule, flow, request)) {
        found.push_back(&rule);
        break;
      }
    }
  }
  return found;
}

const CredentialRule* credential_rule(const Policy& policy, const Flow& flow,
                                      CredentialProtocol protocol, const RequestFacts* request) {
  for (const auto& rule : policy.credential_rules) {
    if (!rule.enabled || rule.protocol != protocol || !covers_flow(rule, flow)) {
      continue;
    }
    if (rule.http_match && (request == nullptr || !http_match(*rule.http_match, *request))) {
      continue;
    }
    return &rule;
  }
  return nullptr;
}

}  // namespace atl::egress
