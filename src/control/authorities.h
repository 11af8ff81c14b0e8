// The certificate authority of each sandbox, for the TLS that is opened on its way out.
//
// Made when it is first needed, P-256, for a short time, with the sandbox's name in it: what is
// signed with it is believed in that sandbox and nowhere else, also not in its forks, which get
// their own. The key is sealed in a record of the sandbox and never enters it. A new one is made
// well before the old one ends. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "control/sandboxes.h"
#include "control/store_access.h"
#include "egress/boundary.h"
#include "secrets/keyring.h"

namespace atl::control {

inline constexpr int kAuthorityDays = 60;
// The next one is made when the old one has less than this: leaves live shorter.
inline constexpr int kAuthorityRenewalDays = 15;

class Authorities final : public egress::Authorities, public SandboxDocuments {
 public:
  using Pointer = std::shared_ptr<const egress::Authority>;  // of the table and the proxy

  // All outlive this.
  Authorities(StoreAccess store, const secrets::Keyring& keyring, const WallClock& clock,
              Sandboxes& sandboxes);
  ~Authorities() override;
  Authorities(const Authorities&) = delete;
  Authorities& operator=(const Authorities&) = delete;

  Task<> start();

  // Durable when it returns. kNotFound when there is no such sandbox.
  Task<Pointer> authority(std::string sandbox_id) override;
  // Told when a sandbox has got one, or another: it must learn to trust it.
  void on_issued(std::function<void(const std::string& sandbox_id)> issued) {
    issued_ = std::move(issued);
  }

  // SandboxDocuments.
  Result<std::vector<store::Record>> begin(const Sandbox&, const ClaimRequest&) override {
    return std::vector<store::Record>{};
  }
  void forget(const std::string& id) override { entries_.erase(id); }
  StringMap environment(const Sandbox&) const override { return {}; }

 private:
  struct Entry {
    std::string sealed;
    std::int64_t version = 0;
    UnixMillis issued_at = 0;
    Pointer opened;  // null until it was asked for
  };

  bool is_good(const Entry& entry) const;
  Result<Pointer> open(const std::string& sandbox_id, const Entry& entry) const;
  Task<Pointer> issue(std::string sandbox_id);

  StoreAccess store_;
  const secrets::Keyring& keyring_;
  const WallClock& clock_;
  Sandboxes& sandboxes_;
  std::function<void(const std::string&)> issued_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::shared_ptr<Event>> issuing_;  // shared by those who wait
};

}  // namespace atl::control
