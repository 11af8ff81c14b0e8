// Sandboxes as JSON, and what clients ask about them as values of control.
#pragma once

#include "base/json.h"
#include "control/sandboxes.h"
#include "control/service.h"

namespace atl::service::native {

// `services` are as their owner sees them (service_routes.h).
Json sandbox_json(const control::Sandbox& sandbox, std::optional<UnixMillis> idle_expires_at,
                  Json services = Json::array());
Json sandbox_status_json(const control::Sandbox& sandbox);

// A claim of `count` answers with a list, one without it with the sandbox itself.
struct ParsedClaim {
  control::ClaimRequest request;
  std::string snapshot_id;  // where it begins; empty: as its template does
  bool many = false;
};
Result<ParsedClaim> parse_claim(const Json& body);
Json claim_json(const control::ClaimAnswer& answer, bool many);

// "config.network" of a body; null when there is none.
Result<control::NetworkRequestPtr> parse_config_network(const Json& body);
Result<control::SandboxUpdate> parse_update(const Json& body);
// The services in an update; nothing when it does not change them.
Result<std::optional<std::vector<control::Service>>> parse_service_update(const Json& body);
Result<control::ListRequest> parse_list(std::string_view query, std::string_view team_id,
                                        const control::Templates& templates);

}  // namespace atl::service::native
