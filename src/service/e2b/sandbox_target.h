// A sandbox that somebody addresses from outside, by headers, host name or signature: found, looked
// at for the token, and awake when the request may wake it.
#pragma once

#include <cstdint>
#include <string>

#include "control/contexts.h"
#include "control/sandbox_terms.h"

namespace atl::service::e2b {

inline constexpr std::uint16_t kEnvdPort = 49983;
inline constexpr std::uint16_t kInterpreterPort = 49999;

// Whom requests are for that name no user.
inline constexpr std::string_view kDefaultUser = "user";

struct SandboxTarget {
  control::SandboxRef sandbox;
  std::uint16_t port = 0;
  // The request has the right X-Access-Token, or the sandbox wants none.
  bool token_right = false;
  // What the token is, to check signatures with; empty: the sandbox wants none. Never to be logged.
  std::string access_token;
  // The request may use the sandbox: see entitlement.h. Without it nothing but /health is served.
  bool entitled = false;
  std::string user{kDefaultUser};
  std::string template_name;
  control::StringMap env;  // of the sandbox
  control::TermsPtr terms;
};

}  // namespace atl::service::e2b
