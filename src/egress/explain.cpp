#include "egress/explain.h"

#include <algorithm>

#include "base/strings.h"
#include "egress/policy_words.h"

namespace atl::egress {
namespace {

std::string target_text(const Flow& flow) {
  return concat(flow.name.empty() ? flow.address.text() : flow.name, ":", flow.port,
                flow.transport == Transport::kUdp ? "/udp" : "");
}

// A rule that would open it, as it stands in a policy document.
std::string opening_rule(const Flow& flow) {
  const std::string what = flow.name.empty()
                               ? concat("\"cidrs\": [\"", Network::of(flow.address).text(), "\"]")
                               : concat("\"domains\": [\"", flow.name, "\"]");
  return concat("{\"action\": \"allow\", ", what, ", \"ports\": [{\"port\": ", flow.port,
                ", \"protocol\": \"", word_of(kTransports, flow.transport), "\"}]}");
}

bool has_protocols(PolicyStack policies) {
  return std::ranges::any_of(policies, [](const NamedPolicy& named) {
    return std::ranges::any_of(named.policy->traffic_rules,
                               [](const auto& rule) { return !rule.app_protocols.empty(); });
  });
}

void advise_on_layer(const LayerVerdict& layer, const Flow& flow,
                     std::vector<std::string>& advice) {
  if (layer.decision.action == Action::kAllow) {
    return;
  }
  if (layer.decision.action == Action::kAsk) {
    advice.push_back(
        concat("somebody has to answer: atoll approvals watch, then atoll approvals "
               "allow ID"));
    return;
  }
  const bool own = layer.origin == "sandbox";
  const std::string whose =
      own ? "the sandbox's policy (atoll network set)"
          : concat("the ", layer.origin, " policy, which the sandbox cannot open by itself");
  if (layer.decision.rule == "mode") {
    advice.push_back(concat("add to trafficRules of ", whose, ": ", opening_rule(flow)));
    return;
  }
  advice.push_back(concat("change or remove rule ", layer.decision.rule, " of ", whose,
                          ", or put a rule before it that allows ", target_text(flow)));
}

Explanation closed_class(const Flow& flow, std::string_view closed) {
  return {.decision = {Action::kDeny, "address-class",
                       concat(closed, ", closed before any policy is asked")},
          .origin = "class",
          .layers = {},
          .advice = {concat("the operator can open it: atoll serve --open-egress ",
                            Network::of(flow.address).text())}};
}

}  // namespace

std::string_view action_name(Action action) {
  return word_of(kActions, action);
}

Explanation explain(PolicyStack policies, const Flow& flow, std::optional<std::string> closed) {
  if (closed) {
    return closed_class(flow, *closed);
  }
  Explanation explanation{.decision = decide(policies, flow)};
  for (const NamedPolicy& named : policies) {
    const Decision decision = decide(PolicyStack{&named, 1}, flow);
    if (decision.action == explanation.decision.action) {
      explanation.origin = named.origin;  // of equals the last speaks, as in decide()
    }
    explanation.layers.push_back({std::string{named.origin}, decision});
  }
  for (const LayerVerdict& layer : explanation.layers) {
    // What an approval would let through is of no use while something else denies it.
    if (layer.decision.action == explanation.decision.action) {
      advise_on_layer(layer, flow, explanation.advice);
    }
  }
  if (explanation.decision.action == Action::kDeny && flow.protocol == AppProtocol::kUnknown &&
      has_protocols(policies)) {
    explanation.advice.push_back(
        "some rules ask for an application protocol; say which one this is (protocol=tls)");
  }
  if (policies.empty()) {
    explanation.origin = "sandbox";
  }
  return explanation;
}

}  // namespace atl::egress
