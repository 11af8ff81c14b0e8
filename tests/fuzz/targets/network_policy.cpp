// The policy document: what is read can be written and read again as the same.
#include "egress/decision.h"
#include "egress/policy_json.h"
#include "fuzz.h"

namespace atl::fuzz {

void network_policy(std::string_view input) {
  const auto document = Json::parse(input);
  if (!document) {
    return;
  }
  const auto policy = egress::read_policy(*document, "network");
  if (!policy) {
    CHECK(policy.error().code == Code::kInvalidArgument);
    return;
  }
  const auto again = egress::read_policy(egress::write_policy(*policy), "network");
  CHECK(again && *again == *policy);
  const egress::NamedPolicy named{"sandbox", &*policy};
  const egress::PolicyStack stack{&named, 1};
  egress::Flow flow{.address = egress::Address::v4(0x08080808), .port = 443, .name = "a.example"};
  const auto decision = egress::decide(stack, flow);
  // A name that some flow may reach has to resolve.
  CHECK(decision.action != egress::Action::kAllow || egress::may_resolve(stack, flow.name) ||
        decision.rule != "mode");
}

Seeds network_policy_seeds() {
  return {R"({"mode":"allow-all"})",
          R"({"mode":"block-all","egress":{"trafficRules":[{"action":"allow","domains":["*.a.b"],)"
          R"("ports":[{"port":1,"endPort":9,"protocol":"udp"}],"cidrs":["10.0.0.0/8","::/0"],)"
          R"("appProtocols":["tls"]}]}})",
          R"({"mode":"block-all","egress":{"protocolRules":[{"protocol":"mcp","domains":["a.b"],)"
          R"("mcp":{"tools":{"denied":["x"]},"arguments":[{"tool":"t","pointer":"/a",)"
          R"("pattern":".*"}]}}],"credentialRules":[{"credentialRef":"x","domains":["a.b"],)"
          R"("httpMatch":{"headers":[{"name":"a","values":["b"]}]}}]}})",
          R"({"mode":"allow-all","egress":{"deniedPorts":[{"port":25}],"deniedCidrs":["1.1.1.1"],)"
          R"("proxy":{"type":"socks5","address":"[::1]:1"}}})"};
}

}  // namespace atl::fuzz
