// Judging a flow, and later its requests, by the policies a sandbox is under.
//
// A flow is judged when enough is known about it. asks_for_contents() says whether any rule looks
// further than address and port; only then does the proxy wait for the first bytes. A name that is
// unknown matches no domain: an allow rule with domains does not open it, and a deny rule with
// domains does not close it (the name's addresses were never handed out by our resolver, and
// block-all closes it anyway).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "egress/policy.h"

namespace atl::egress {

struct Flow {
  Transport transport = Transport::kTcp;
  Address address;  // the one that will be dialled
  std::uint16_t port = 0;
  std::string name;  // normal; empty when unknown
  AppProtocol protocol = AppProtocol::kUnknown;
};

struct Decision {
  Action action = Action::kDeny;
  std::string rule;    // its name or "trafficRules[3]"; "mode" when none matched
  std::string reason;  // for people
};

// Policies in the order in which they are named in an answer: floors first, then the sandbox's own.
struct NamedPolicy {
  std::string_view origin;  // "operator", "template", "sandbox"
  const Policy* policy;
};
using PolicyStack = std::span<const NamedPolicy>;

// Allowed only when every policy allows. A deny wins over an ask, an ask over an allow.
Decision decide(PolicyStack policies, const Flow& flow);
// Some rule needs the name or the protocol of a flow to this port.
bool asks_for_contents(PolicyStack policies, Transport transport, std::uint16_t port);
// The name could be reached by some flow: it may be resolved. Under block-all only names that an
// allow or ask rule mentions, so that DNS itself is no way out.
bool may_resolve(PolicyStack policies, std::string_view name);

// Whether TLS to this name and port is opened, and by what kind of rule.
struct Interception {
  bool terminate = false;
  // A protocol rule covers the flow but lets TLS pass: nothing could be checked, so it is refused.
  std::string blind_rule;
};
Interception interception(PolicyStack policies, const Flow& flow);

// One header or query parameter, decoded; header names in lower case.
struct NameValue {
  std::string_view name;
  std::string_view value;
};
struct RequestFacts {
  std::string_view method;
  std::string_view path;  // canonical: no dot segments, no encoded slash
  std::span<const NameValue> query;
  std::span<const NameValue> headers;
};
bool http_match(const HttpMatch& match, const RequestFacts& request);
// By the first HTTP rule of each policy that covers the flow and the request.
Decision decide_request(PolicyStack policies, const Flow& flow, const RequestFacts& request);
// A rule that covers the flow asks about paths: they must have one reading.
bool looks_at_paths(PolicyStack policies, const Flow& flow);
// The MCP rules that cover the flow and the request, one for each policy at most.
std::vector<const ProtocolRule*> mcp_rules(PolicyStack policies, const Flow& flow,
                                           const RequestFacts& request);
// The first enabled credential rule that covers it, if there is one.
const CredentialRule* credential_rule(const Policy& policy, const Flow& flow,
                                      CredentialProtocol protocol, const RequestFacts* request);

}  // namespace atl::egress
