// The network policy of a sandbox: what it is under, and the part of it that its owner sets.
#pragma once

#include "control/network_policies.h"
#include "service/native/routes.h"

namespace atl::service::native {

class NetworkRoutes {
 public:
  // Null: this server has none, and no routes for them.
  explicit NetworkRoutes(control::NetworkPolicies* policies) : policies_(policies) {}
  void add_to(RouteTable& table);

 private:
  Task<> get(NativeExchange& exchange, std::string id);
  Task<> replace(NativeExchange& exchange, std::string id);

  control::NetworkPolicies* policies_;
};

Json network_json(const control::EffectiveNetwork& network);

}  // namespace atl::service::native
