// What happens to a connection, from what is known about it. Sans-IO: rules and facts in, a verdict
// out; asked again when more is known, and for every open connection when the rules change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "egress/boundary.h"
#include "egress/classifier.h"

namespace atl::proxy {

// Who carries the connection.
enum class Handling : std::uint8_t { kRelay, kHttp, kSsh, kRedis, kPostgres, kMqtt, kSocks5 };

struct Verdict {
  egress::Action action = egress::Action::kDeny;
  std::string origin;  // "sandbox", "operator", "dns" …
  std::string rule;
  std::string reason;
  Handling handling = Handling::kRelay;
  // The name was decided on: what we resolve it to is dialled, whatever the sandbox wanted.
  bool by_name = false;
};

// One rule among those of all policies: their titles are their owners'.
std::string rule_key(const Verdict& verdict);
// Somebody must be asked first, and the rule that was approved is another.
bool is_unasked(const Verdict& verdict, std::string_view approved);

// The decision of the strictest policy, and whose it is.
Verdict decide_with_origin(const egress::SandboxRules& rules, const egress::Flow& flow);

// `contents`: what the first bytes showed; null when nobody looked or the client has said nothing.
Verdict judge(const egress::SandboxRules& rules, const egress::Flow& flow,
              const egress::Classified* contents);

// What protocol rules say about datagrams: they cannot be looked into, so what a rule covers is
// closed, and so is what has no name where a rule may mean it. `names`: every one that its address
// was resolved from.
Verdict judge_datagrams(const egress::SandboxRules& rules, const egress::Flow& flow,
                        const std::vector<std::string>& names);

// The binding that a handler of one protocol logs in with; nothing for others.
std::optional<egress::Binding> credential_in_use(const egress::SandboxRules& rules,
                                                 const egress::Flow& flow, Handling handling);

// Some policy has a rule about names or protocols for this port.
bool wants_contents(const egress::SandboxRules& rules, std::uint16_t port);
// Some policy closes everything that it does not open: other ways to resolve names are closed too.
bool is_restricted(const egress::SandboxRules& rules);
// A public resolver over HTTPS, under a policy that closes what it does not open. Only a rule that
// spells its name opens it there.
bool is_closed_resolver(const egress::SandboxRules& rules, std::string_view name);

}  // namespace atl::proxy
