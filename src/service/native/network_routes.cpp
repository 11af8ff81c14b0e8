#include "service/native/network_routes.h"

#include "control/stored_network.h"
#include "egress/policy_json.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {

using control::Permission;

Json network_json(const control::EffectiveNetwork& network) {
  Json json = control::show_network(network.document);
  if (!network.floors.empty()) {
    Json floors = Json::array();
    for (const auto& floor : network.floors) {
      Json one = egress::write_policy(floor.policy);
      one.set("origin", floor.origin);
      floors.push(std::move(one));
    }
    json.set("floors", std::move(floors));
  }
  if (!network.failure.empty()) {
    json.set("failure", network.failure);
  }
  return json;
}

void NetworkRoutes::add_to(RouteTable& table) {
  if (policies_ == nullptr) {
    return;
  }
  constexpr std::string_view kNetwork = "/api/v1/sandboxes/{id}/network";
  table.add("GET", kNetwork, Permission::kSandboxRead,
            [this](NativeExchange& e, const auto& p) { return get(e, parameter(p, "id")); });
  table.add("PUT", kNetwork, Permission::kSandboxWrite,
            [this](NativeExchange& e, const auto& p) { return replace(e, parameter(p, "id")); });
}

Task<> NetworkRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto network, policies_->get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(200, network_json(network)));
}

Task<> NetworkRoutes::replace(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY(auto request, control::read_network(body, "network", control::NetworkPlace::kRequest));
  auto shared = std::make_shared<const control::NetworkRequest>(std::move(request));
  CO_TRY(const auto network,
         co_await policies_->replace(exchange.principal().team_id, std::move(id), std::move(shared),
                                     "network"));
  co_return co_await exchange.respond(data_response(200, network_json(network)));
}

}  // namespace atl::service::native
