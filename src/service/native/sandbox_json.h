// Sandboxes as JSON, and what clients ask about them as values of control.
#pragma once

#include "base/json.h"
#include "control/sandboxes.h"

namespace atl::service::native {

Json sandbox_json(const control::Sandbox& sandbox, std::optional<UnixMillis> idle_expires_at);
Json sandbox_status_json(const control::Sandbox& sandbox);

// A claim of `count` answers with a list, one without it with the sandbox itself.
struct ParsedClaim {
  control::ClaimRequest request;
  std::string snapshot_id;  // where it begins; empty: as its template does
  bool many = false;
};
Result<ParsedClaim> parse_claim(const Json& body);
Json claim_json(const control::ClaimAnswer& answer, bool many);

Result<control::SandboxUpdate> parse_update(const Json& body);
Result<control::ListRequest> parse_list(std::string_view query, std::string_view team_id,
                                        const control::Templates& templates);

}  // namespace atl::service::native
