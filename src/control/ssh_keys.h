// The public keys with which people log in to sandboxes over SSH. A key belongs to a team and opens
// every sandbox of that team; the same key may be known to several teams.
//
// All keys are held in memory (there are few) and written through to the store. Loop thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "control/store_access.h"
#include "secrets/keyring.h"
#include "ssh/public_key.h"

namespace atl::control {

inline constexpr std::size_t kMaxSshKeysPerTeam = 200;
inline constexpr std::size_t kMaxSshKeyNameBytes = 256;

struct SshKey {
  std::string id;
  std::string team_id;
  std::string name;
  ssh::PublicKey key;
  UnixMillis created_at = 0;
};

class SshKeys {
 public:
  SshKeys(StoreAccess store, const WallClock& clock) : store_(store), clock_(clock) {}

  Task<> load();                                             // REQUIRES: before anything else
  std::vector<SshKey> list(std::string_view team_id) const;  // oldest first
  // kAlreadyExists: the team has this key already.
  Task<SshKey> add(std::string team_id, std::string name, std::string line);
  Task<> remove(std::string team_id, std::string id);
  // The teams whose sandboxes this key opens.
  std::vector<std::string> teams_of(std::string_view blob) const;

 private:
  Result<> check_new(std::string_view team_id, const ssh::PublicKey& key) const;

  StoreAccess store_;
  const WallClock& clock_;
  std::vector<SshKey> keys_;
};

// The private key by which clients know this installation again: made once, kept sealed.
Task<secrets::Plaintext> load_or_make_ssh_host_key(StoreAccess store,
                                                   const secrets::Keyring& keyring,
                                                   const WallClock& clock);

}  // namespace atl::control
