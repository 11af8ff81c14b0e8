// Who is calling: API keys, known only by the SHA-256 of their text.
//
// All keys are held in memory (there are few) and written through to the store. A lookup compares
// hashes in constant time. `last_used_at` is written at most once a minute per key, off the request
// path. Loop thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/scope.h"
#include "control/store_access.h"

namespace atl::control {

enum class Permission : std::uint8_t {
  kSandboxCreate,
  kSandboxRead,
  kSandboxWrite,
  kSandboxDelete,
  kTemplateRead,
  kTemplateWrite,  // create, build, update, delete
  kVolumeCreate,
  kVolumeRead,
  kVolumeWrite,
  kVolumeDelete,
  kVolumeFileRead,
  kVolumeFileWrite,
  kCredentialSourceRead,
  kCredentialSourceWrite,
  kCredentialSourceDelete,
};
std::string_view permission_name(Permission permission);  // "sandbox:create"

struct Principal {
  std::string key_id;
  std::string team_id;
  std::vector<std::string> roles;

  bool may(Permission permission) const;
};

class Identity {
 public:
  Identity(StoreAccess store, const WallClock& clock) : store_(store), clock_(clock) {}

  Task<> load();
  // The principal of a key's text; kUnauthenticated for unknown, inactive and expired ones alike.
  Result<Principal> authenticate(std::string_view key_text);
  // Makes the key with this hash the active admin key; one that was the admin key before stops
  // being valid. Idempotent.
  Task<> ensure_admin_key(std::string key_sha256);
  // Writes the pending `last_used_at` values, then waits for the next minute; until cancelled.
  Task<> run();

 private:
  struct Key {
    store::ApiKey row;
    bool touched = false;
  };
  Task<> write_touched();

  StoreAccess store_;
  const WallClock& clock_;
  std::vector<Key> keys_;
};

}  // namespace atl::control
