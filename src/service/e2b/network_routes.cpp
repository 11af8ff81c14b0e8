#include "service/e2b/network_routes.h"

#include "service/e2b/lenient_fields.h"

namespace atl::service::e2b {
namespace {

// With what the terms say of traffic that comes in.
std::string told_network(Json told, const control::Terms& terms) {
  told.set("allowPublicTraffic", terms.public_traffic);
  if (!terms.request_host.empty()) {
    told.set("maskRequestHost", terms.request_host);
  }
  if (!terms.https_ports.empty()) {
    Json ports = Json::array();
    for (const std::uint16_t port : terms.https_ports) {
      ports.push(port);
    }
    told.set("httpsPorts", std::move(ports));
  }
  return told.dump();
}

}  // namespace

void NetworkRoutes::add_to(E2bRoutes& routes) {
  routes.add("PUT", "/sandboxes/{id}/network", control::Permission::kSandboxWrite,
             [this](E2bExchange& exchange, const auto& parameters) {
               return replace(exchange, parameter(parameters, "id"));
             });
}

ValueSealer NetworkRoutes::sealer(const std::string& team_id) const {
  return [this, team_id](const control::SecretValues& values) {
    return sources_.seal_own(team_id, values);
  };
}

Result<> NetworkRoutes::map_claim(const std::string& team_id, const Json& body,
                                  NewSandbox& made) const {
  TRY(auto options, read_network_options(body, sealer(team_id)));
  made.claim.network = options.egress;
  made.terms.internet = options.internet;
  made.terms.public_traffic = options.allow_public_traffic;
  made.terms.request_host = std::move(options.mask_request_host);
  made.terms.https_ports = std::move(options.https_ports);
  if (body.find("network") != nullptr) {
    made.terms.network = told_network(std::move(options.told), made.terms);
  }
  return {};
}

Task<> NetworkRoutes::replace(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  CO_TRY(auto update, read_network_update(body, sealer(sandbox.team_id)));
  CO_TRY_DO(co_await policies_.replace(sandbox.team_id, sandbox.id, update.egress, "network"));
  // One that was not made on terms has none to tell this by.
  if (const auto before = parts_.terms.find(sandbox.id)) {
    control::Terms terms = *before;
    terms.internet = update.internet;
    terms.network = told_network(std::move(update.told), terms);
    CO_TRY_DO(co_await parts_.terms.put(sandbox.team_id, sandbox.id, std::move(terms)));
  }
  co_return co_await exchange.respond_empty(204);
}

}  // namespace atl::service::e2b
