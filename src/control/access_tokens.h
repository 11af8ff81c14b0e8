// Tokens that open one sandbox: to its agent, and to its ports when they are not public.
//
// Derived from a seed that this server made once and keeps sealed, so a token is the same for as
// long as the sandbox lives, through pauses and restarts, and none is stored.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "control/store_access.h"
#include "secrets/keyring.h"

namespace atl::control {

class AccessTokens {
 public:
  explicit AccessTokens(secrets::Plaintext seed) : seed_(std::move(seed)) {}

  // 64 hex digits each.
  std::string agent_token(std::string_view sandbox_id) const;
  std::string traffic_token(std::string_view sandbox_id) const;
  // Of anything else that is opened by knowing its name signed; `purpose` keeps kinds apart.
  std::string token(std::string_view purpose, std::string_view id) const;

 private:
  secrets::Plaintext seed_;
};

// The seed of this server; made the first time, sealed again when there is a newer key, and made
// anew when nobody can open it any more.
Task<secrets::Plaintext> load_or_make_token_seed(StoreAccess store, const secrets::Keyring& keyring,
                                                 const WallClock& clock);

}  // namespace atl::control
