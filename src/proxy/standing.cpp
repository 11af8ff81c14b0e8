#include "proxy/standing.h"

#include "base/strings.h"
#include "proxy/dialer.h"
#include "proxy/endpoint.h"

namespace atl::proxy {
namespace {

// As it stands, and at the address that it was connected to: the sandbox's own may be invented.
Verdict judge_open(const egress::SandboxRules& rules, const Standing& standing) {
  const egress::Flow& flow = standing.flow;
  const egress::Classified unknown;
  const bool unseen = !standing.was_looked_at && wants_contents(rules, flow.port);
  Verdict verdict = judge(rules, flow, unseen ? &unknown : standing.contents);
  const auto there =
      Endpoint::parse(standing.dialled.substr(0, standing.dialled.find(' ')), flow.port);
  if (verdict.action == egress::Action::kDeny || standing.is_peer || !there) {
    return verdict;
  }
  egress::Flow dialled = flow;
  dialled.address = there->address;
  Verdict at_address = decide_with_origin(rules, dialled);
  // Requests inside HTTP have names of their own, which may have been dialled last: for them only
  // what a rule says of the address counts.
  const bool speaks = standing.handling != Handling::kHttp || at_address.rule != "mode";
  const bool closed =
      at_address.action == egress::Action::kDeny || is_unasked(at_address, standing.approved);
  return speaks && closed ? at_address : verdict;
}

// It must be looked into now, or its handler logged in under a rule or with a credential that is
// another now. Requests inside HTTP are judged one by one.
bool goes_another_way(const egress::SandboxRules& rules, const Standing& standing,
                      const Verdict& verdict) {
  if (!standing.is_handed_over) {
    return standing.is_connected && verdict.handling != Handling::kRelay;
  }
  return standing.handling != Handling::kHttp &&
         (verdict.handling != standing.handling ||
          credential_in_use(rules, standing.flow, standing.handling) != standing.credential);
}

bool has_another_proxy(const egress::SandboxRules& rules, const Standing& standing) {
  const auto* proxy = upstream_proxy(rules);
  const bool same = proxy == nullptr ? !standing.through : standing.through == *proxy;
  return !same && !standing.is_peer && (standing.is_connected || standing.is_handed_over);
}

}  // namespace

std::optional<Verdict> cut_by(const egress::SandboxRules& rules, const Standing& standing,
                              egress::Peers& peers) {
  Verdict verdict = judge_open(rules, standing);
  if (verdict.action == egress::Action::kDeny) {
    verdict.reason = concat("cut by new rules: ", verdict.reason);
  } else if (standing.is_peer && !peers.find(rules, *peer_label(standing.flow.name))) {
    verdict.reason = "cut by new rules: the two share no group any more";
  } else if (has_another_proxy(rules, standing)) {
    verdict.reason = "cut by new rules: another upstream proxy";
  } else if (is_unasked(verdict, standing.approved) || goes_another_way(rules, standing, verdict)) {
    verdict.reason = "cut by new rules: it must be looked into, logged in or asked about anew";
  } else {
    return std::nullopt;
  }
  return verdict;
}

}  // namespace atl::proxy
