#include "service/e2b/health_routes.h"

namespace atl::service::e2b {

void add_health_routes(E2bRoutes& routes) {
  routes.add_public("GET", "/health",
                    [](E2bExchange& exchange, const auto&) { return exchange.respond_empty(204); });
  routes.add("GET", "/teams", control::Permission::kSandboxRead,
             [](E2bExchange& exchange, const auto&) {
               const std::string& team_id = exchange.principal().team_id;
               Json teams = Json::array();
               // The key that was sent; no other could be told, keys are known by their hash.
               teams.push(Json::object({{"teamID", team_id},
                                        {"name", team_id},
                                        {"apiKey", key_of(exchange.request().headers)},
                                        {"isDefault", true}}));
               return exchange.respond_json(200, teams);
             });
}

}  // namespace atl::service::e2b
