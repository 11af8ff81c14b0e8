#include "proxy/judge.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace atl::proxy {
namespace {

using egress::Action;
using egress::AppProtocol;
using egress::CredentialProtocol;

constexpr std::uint16_t kDnsOverTlsPort = 853;

constexpr std::array<std::string_view, 22> kResolverNames{"cloudflare-dns.com",
                                                          "one.one.one.one",
                                                          "dns.google",
                                                          "dns.google.com",
                                                          "dns.quad9.net",
                                                          "doh.opendns.com",
                                                          "dns.adguard.com",
                                                          "dns.adguard-dns.com",
                                                          "dns.nextdns.io",
                                                          "doh.cleanbrowsing.org",
                                                          "doh.dns.sb",
                                                          "dns.alidns.com",
                                                          "doh.pub",
                                                          "dns.pub",
                                                          "doh.360.cn",
                                                          "dns.mullvad.net",
                                                          "doh.mullvad.net",
                                                          "freedns.controld.com",
                                                          "dns.controld.com",
                                                          "ordns.he.net",
                                                          "doh.applied-privacy.net",
                                                          "dns.twnic.tw"};

bool is_resolver_name(std::string_view name) {
  return std::ranges::any_of(kResolverNames, [&](std::string_view known) {
    return name == known || (name.size() > known.size() && name.ends_with(known) &&
                             name[name.size() - known.size() - 1] == '.');
  });
}

int strictness(Action action) {
  return action == Action::kDeny ? 2 : action == Action::kAsk ? 1 : 0;
}

bool has_port(const std::vector<egress::PortRange>& ports, const egress::Flow& flow) {
  return ports.empty() || std::ranges::any_of(ports, [&](const egress::PortRange& range) {
           return range.transport == flow.transport && range.first <= flow.port &&
                  flow.port <= range.last;
         });
}

bool opens_address(const egress::Policy& policy, const egress::Flow& flow) {
  return std::ranges::any_of(policy.traffic_rules, [&](const auto& rule) {
    return rule.action != Action::kDeny && rule.domains.empty() && !rule.networks.empty() &&
           has_port(rule.ports, flow) && std::ranges::any_of(rule.networks, [&](const auto& range) {
             return range.contains(flow.address);
           });
  });
}

// The policy does not care about names here, or a rule opens the very address. What a protocol or
// credential rule says of a name must not be passed by with another name at the same address.
bool is_about_addresses(const egress::Policy& policy, const egress::Flow& flow) {
  const auto names = [&](const auto& rule) {
    return !rule.domains.empty() && has_port(rule.ports, flow);
  };
  const bool names_matter = std::ranges::any_of(policy.traffic_rules, names) ||
                            std::ranges::any_of(policy.protocol_rules, names) ||
                            std::ranges::any_of(policy.credential_rules, [&](const auto& rule) {
                              return rule.enabled && names(rule);
                            });
  return !names_matter || opens_address(policy, flow);
}

// It names nobody, and a protocol rule speaks about names at its port: it may be what is meant.
bool hides_its_name(const egress::SandboxRules& rules, const egress::Flow& flow) {
  return flow.name.empty() && std::ranges::any_of(rules.layers, [&](const auto& layer) {
           return std::ranges::any_of(layer.policy.protocol_rules,
                                      [&](const auto& rule) {
                                        return !rule.domains.empty() && has_port(rule.ports, flow);
                                      }) &&
                  !opens_address(layer.policy, flow);
         });
}

bool has_protocol_rule(const egress::SandboxRules& rules, const egress::Flow& flow) {
  return std::ranges::any_of(rules.layers, [&](const auto& layer) {
    return std::ranges::any_of(layer.policy.protocol_rules, [&](const auto& rule) {
      return has_port(rule.ports, flow) &&
             (rule.domains.empty() || std::ranges::any_of(rule.domains, [&](const auto& pattern) {
                return pattern.matches(flow.name);
              }));
    });
  });
}

bool is_spelled_out(const egress::SandboxRules& rules, std::string_view name) {
  return std::ranges::any_of(rules.layers, [&](const auto& layer) {
    return std::ranges::any_of(layer.policy.traffic_rules, [&](const auto& rule) {
      return rule.action != Action::kDeny &&
             std::ranges::any_of(rule.domains,
                                 [&](const auto& pattern) { return pattern.text() == name; });
    });
  });
}

bool has_credential(const egress::SandboxRules& rules, const egress::Flow& flow,
                    CredentialProtocol protocol) {
  return std::ranges::any_of(rules.layers, [&](const auto& layer) {
    return egress::credential_rule(layer.policy, flow, protocol, nullptr) != nullptr;
  });
}

std::optional<CredentialProtocol> credential_protocol(Handling handling) {
  switch (handling) {
    case Handling::kSsh:
      return CredentialProtocol::kSsh;
    case Handling::kRedis:
      return CredentialProtocol::kRedis;
    case Handling::kPostgres:
      return CredentialProtocol::kPostgres;
    case Handling::kMqtt:
      return CredentialProtocol::kMqtt;
    case Handling::kSocks5:
      return CredentialProtocol::kSocks5;
    case Handling::kRelay:
    case Handling::kHttp:
      return std::nullopt;
  }
  return std::nullopt;
}

Verdict refused(std::string origin, std::string rule, std::string reason) {
  return {.origin = std::move(origin), .rule = std::move(rule), .reason = std::move(reason)};
}

constexpr std::string_view kUnnamed =
    "it names no host, and a protocol rule is about hosts at this port; a rule with cidrs opens an "
    "address";

// TLS that a protocol rule covers is opened or refused; other TLS passes unopened. A hello whose
// true name may be encrypted is opened too where everything is closed that no rule opens and the
// sandbox trusts its authority. Elsewhere it passes by its outer name: browsers send such an
// extension always, its keys are not handed out by our resolver, and it goes where we resolve the
// outer name to, so that it reaches no more than a Host header inside other unopened TLS.
void handle_tls(const egress::SandboxRules& rules, const egress::Flow& flow,
                const egress::Interception& asked, const egress::Classified& contents,
                Verdict& verdict) {
  const bool hidden = contents.hello && contents.hello->encrypted_hello && is_restricted(rules) &&
                      rules.needs_authority();
  if (asked.terminate || (hidden && asked.blind_rule.empty())) {
    verdict.handling = Handling::kHttp;
  } else if (hides_its_name(rules, flow)) {
    verdict = refused(verdict.origin, "protocolRules", std::string{kUnnamed});
  } else if (!asked.blind_rule.empty()) {
    verdict = refused(verdict.origin, asked.blind_rule,
                      concat("rule ", asked.blind_rule,
                             " covers this connection but lets TLS pass unopened, so nothing of it "
                             "could be checked; give the rule tlsMode terminate-reoriginate"));
  }
}

// What protocol and credential rules make of an allowed flow.
void choose_handling(const egress::SandboxRules& rules, const egress::Flow& flow,
                     const egress::Classified& contents, Verdict& verdict) {
  const auto stack = rules.stack();
  const auto asked = egress::interception(stack, flow);
  const auto use = [&](CredentialProtocol protocol, Handling handling) {
    if (has_credential(rules, flow, protocol)) {
      verdict.handling = handling;
    }
  };
  switch (flow.protocol) {
    case AppProtocol::kTls:
      return handle_tls(rules, flow, asked, contents, verdict);
    case AppProtocol::kHttp:
      // Each request is judged by its own name, whatever the first one's was.
      verdict.handling = Handling::kHttp;
      return;
    case AppProtocol::kSsh:
      use(CredentialProtocol::kSsh, Handling::kSsh);
      break;
    case AppProtocol::kRedis:
      use(CredentialProtocol::kRedis, Handling::kRedis);
      break;
    case AppProtocol::kPostgres:
      use(CredentialProtocol::kPostgres, Handling::kPostgres);
      break;
    case AppProtocol::kMqtt:
      use(CredentialProtocol::kMqtt, Handling::kMqtt);
      break;
    case AppProtocol::kSocks5:
      use(CredentialProtocol::kSocks5, Handling::kSocks5);
      break;
    case AppProtocol::kUnknown:
      if (asked.terminate || !asked.blind_rule.empty()) {
        verdict =
            refused(verdict.origin, asked.blind_rule.empty() ? "protocolRules" : asked.blind_rule,
                    "a protocol rule covers this connection, and what it speaks is not known");
      }
      return;
    default:
      break;
  }
  // A few first bytes that look like another protocol are no way past a rule.
  if (verdict.handling == Handling::kRelay && has_protocol_rule(rules, flow)) {
    verdict = refused(verdict.origin, asked.blind_rule.empty() ? "protocolRules" : asked.blind_rule,
                      concat("a protocol rule covers this connection, and it speaks ",
                             egress::app_protocol_name(flow.protocol)));
  }
}

}  // namespace

std::string rule_key(const Verdict& verdict) {
  return concat(verdict.origin, "/", verdict.rule);
}

bool is_unasked(const Verdict& verdict, std::string_view approved) {
  return verdict.action == Action::kAsk && rule_key(verdict) != approved;
}

std::optional<egress::Binding> credential_in_use(const egress::SandboxRules& rules,
                                                 const egress::Flow& flow, Handling handling) {
  const auto protocol = credential_protocol(handling);
  for (const auto& layer : rules.layers) {
    const auto* rule =
        protocol ? egress::credential_rule(layer.policy, flow, *protocol, nullptr) : nullptr;
    if (rule != nullptr) {
      const auto* binding = rules.binding(rule->credential_ref);
      return binding != nullptr ? *binding : egress::Binding{.ref = rule->credential_ref};
    }
  }
  return std::nullopt;
}

bool is_restricted(const egress::SandboxRules& rules) {
  return rules.layers.empty() || std::ranges::any_of(rules.layers, [](const auto& layer) {
           return layer.policy.mode == egress::Mode::kBlockAll;
         });
}

bool is_closed_resolver(const egress::SandboxRules& rules, std::string_view name) {
  return is_resolver_name(name) && is_restricted(rules) && !is_spelled_out(rules, name);
}

bool wants_contents(const egress::SandboxRules& rules, std::uint16_t port) {
  return egress::asks_for_contents(rules.stack(), egress::Transport::kTcp, port);
}

Verdict decide_with_origin(const egress::SandboxRules& rules, const egress::Flow& flow) {
  Verdict strictest = refused("sandbox", "mode", "there is no policy");
  bool first = true;
  for (const egress::NamedPolicy& named : rules.stack()) {
    auto decision = egress::decide({&named, 1}, flow);
    // Of equals the last speaks, as in egress::decide.
    if (first || strictness(decision.action) >= strictness(strictest.action)) {
      strictest = {.action = decision.action,
                   .origin = std::string{named.origin},
                   .rule = std::move(decision.rule),
                   .reason = std::move(decision.reason)};
    }
    first = false;
  }
  return strictest;
}

Verdict judge(const egress::SandboxRules& rules, const egress::Flow& flow,
              const egress::Classified* contents) {
  Verdict verdict = decide_with_origin(rules, flow);
  if (verdict.action == Action::kDeny) {
    return verdict;
  }
  if (is_restricted(rules)) {
    if (flow.port == kDnsOverTlsPort) {
      return refused("dns", "encrypted-dns",
                     "DNS over TLS or QUIC is closed: names are resolved by Atoll's resolver");
    }
    if (is_closed_resolver(rules, flow.name)) {
      return refused("dns", "encrypted-dns",
                     concat(flow.name, " is a resolver over HTTPS; a rule that names it opens it"));
    }
  }
  verdict.by_name =
      !flow.name.empty() && !std::ranges::all_of(rules.layers, [&](const auto& layer) {
        return is_about_addresses(layer.policy, flow);
      });
  if (contents != nullptr) {
    choose_handling(rules, flow, *contents, verdict);
  }
  return verdict;
}

Verdict judge_datagrams(const egress::SandboxRules& rules, const egress::Flow& flow,
                        const std::vector<std::string>& names) {
  Verdict verdict = judge(rules, flow, nullptr);
  if (verdict.action == Action::kDeny) {
    return verdict;
  }
  // HTTP/3 is at the ports that rules know as those of TCP.
  for (const auto transport : {egress::Transport::kTcp, egress::Transport::kUdp}) {
    egress::Flow covered = flow;
    covered.transport = transport;
    if (hides_its_name(rules, covered)) {
      return refused(verdict.origin, "protocolRules", std::string{kUnnamed});
    }
    const auto is_covered = [&](const std::string& name) {
      covered.name = name;
      const auto asked = egress::interception(rules.stack(), covered);
      return asked.terminate || !asked.blind_rule.empty();
    };
    if (is_covered(flow.name) || std::ranges::any_of(names, is_covered)) {
      return refused(verdict.origin, "protocolRules",
                     "a protocol rule covers this host: no datagrams");
    }
  }
  return verdict;
}

}  // namespace atl::proxy
