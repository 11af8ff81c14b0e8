// Whether what a request carries lets it use the sandbox it is for: wake it, keep it awake, be
// served by its ports. Whoever may not learns at most whether the sandbox runs.
//
//   agent         the access token, or for /files a signature that is right and not over
//   interpreter   the access token; contexts also without, for that is how the clients ask for
//                 them, when the sandbox was made for public traffic, else with the traffic token;
//                 never with an access token that is wrong
#pragma once

#include <string_view>

#include "base/clock.h"
#include "http/message.h"
#include "service/e2b/sandbox_target.h"

namespace atl::service::e2b {

inline constexpr std::string_view kAccessTokenHeader = "X-Access-Token";
inline constexpr std::string_view kTrafficTokenHeader = "E2B-Traffic-Access-Token";

// REQUIRES: the target's tokens and terms are set.
bool is_entitled(const http::Request& request, const SandboxTarget& target,
                 std::string_view traffic_token, UnixMillis now);

}  // namespace atl::service::e2b
