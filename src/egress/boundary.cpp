#include "egress/boundary.h"

#include <algorithm>

namespace atl::egress {

std::vector<NamedPolicy> SandboxRules::stack() const {
  std::vector<NamedPolicy> named;
  named.reserve(layers.size());
  for (const Layer& layer : layers) {
    named.push_back({layer.origin, &layer.policy});
  }
  return named;
}

const Binding* SandboxRules::binding(std::string_view ref) const {
  const auto found = std::ranges::find(bindings, ref, &Binding::ref);
  return found == bindings.end() ? nullptr : &*found;
}

bool SandboxRules::needs_authority() const {
  const auto opens_tls = [](const auto& rule) { return rule.tls_mode == TlsMode::kTerminate; };
  return std::ranges::any_of(layers, [&](const Layer& layer) {
    return std::ranges::any_of(layer.policy.protocol_rules, opens_tls) ||
           std::ranges::any_of(layer.policy.credential_rules, opens_tls);
  });
}

}  // namespace atl::egress
