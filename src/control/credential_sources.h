// Credential sources: named secrets of a team, sealed in the store, given to nobody.
//
// A source is a record whose body is its kind and one sealed text, bound to its name and version.
// It stays sealed in memory too and is opened for the moment of its use. A write makes a new
// version, which the next request uses. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/credential_spec.h"
#include "control/network_policies.h"
#include "control/store_access.h"
#include "secrets/keyring.h"

namespace atl::control {

inline constexpr std::size_t kMaxSourcesPerTeam = 1000;

// What may be known of one.
struct CredentialSource {
  std::string team_id;
  std::string name;
  SourceKind kind = SourceKind::kStaticHeaders;
  store::StringMap labels;
  std::int64_t version = 1;
  bool readable = true;  // false: its key is gone; it must be written again
  UnixMillis created_at = 0;
  UnixMillis updated_at = 0;
};

struct OpenedSource {
  CredentialSource source;
  SecretValues values;
};

class CredentialSources final : public BindableSources {
 public:
  // The keyring outlives this.
  CredentialSources(StoreAccess store, const secrets::Keyring& keyring, const WallClock& clock)
      : store_(store), keyring_(keyring), clock_(clock) {}
  CredentialSources(const CredentialSources&) = delete;
  CredentialSources& operator=(const CredentialSources&) = delete;

  // Reads the records, and seals again what an older key sealed.
  Task<> start();
  // Asked before one is removed: whether somebody uses it.
  void on_bound(std::function<bool(std::string_view team_id, std::string_view name)> bound) {
    bound_ = std::move(bound);
  }

  // All changes are durable when they return. kAlreadyExists when the name is taken.
  Task<CredentialSource> create(std::string team_id, std::string name, CredentialSpec spec);
  // A new version. Its kind stays.
  Task<CredentialSource> rotate(std::string team_id, std::string name, CredentialSpec spec);
  // kFailedPrecondition while a sandbox binds it.
  Task<> remove(std::string team_id, std::string name);
  Result<CredentialSource> get(std::string_view team_id, std::string_view name) const;
  std::vector<CredentialSource> list(std::string_view team_id) const;  // by name

  // With its secrets. kFailedPrecondition when it cannot be opened.
  Result<OpenedSource> open(std::string_view team_id, std::string_view name) const;
  // Other values under the same version: a token that its server has replaced. Nothing happens when
  // somebody has written a newer version meanwhile.
  Task<> keep_values(std::string team_id, std::string name, std::int64_t version,
                     SecretValues values);

  // Values that are no source's, for a binding of the team that holds them itself.
  Result<std::string> seal_own(std::string_view team_id, const SecretValues& values) const;
  // All values of such a binding. kFailedPrecondition when something is missing or unreadable.
  Result<OpenedSource> open_own(std::string_view team_id, const egress::Binding& binding) const;

  // BindableSources.
  Result<> check_binding(std::string_view team_id, const egress::Binding& binding) const override;
  std::optional<std::size_t> value_length(std::string_view team_id, const egress::Binding& binding,
                                          std::string_view value_template) const override;
  std::optional<std::string> renewed(std::string_view team_id,
                                     const egress::Binding& binding) const override;

 private:
  struct Entry {
    CredentialSource source;
    std::string sealed;
    bool removing = false;
  };
  using Key = std::pair<std::string, std::string>;  // team and name

  const Entry* find(std::string_view team_id, std::string_view name) const;
  Result<std::string> seal(const CredentialSource& source, const SecretValues& values) const;
  static store::Record record_of(const Entry& entry);
  Task<> load(const store::Record& record);
  Task<> put(Entry entry, std::int64_t expected_version);
  Task<CredentialSource> create_now(std::string team_id, std::string name, CredentialSpec spec);
  Task<CredentialSource> rotate_now(std::string team_id, std::string name, CredentialSpec spec);
  Task<> remove_now(std::string team_id, std::string name);

  StoreAccess store_;
  const secrets::Keyring& keyring_;
  const WallClock& clock_;
  std::function<bool(std::string_view, std::string_view)> bound_;
  std::map<Key, Entry> entries_;
};

}  // namespace atl::control
