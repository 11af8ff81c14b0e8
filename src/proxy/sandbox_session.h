// One sandbox at the boundary: its sockets, its rules, and everything of it that is open.
#pragma once

#include <memory>
#include <unordered_set>

#include "base/scope.h"
#include "proxy/connection.h"
#include "proxy/dns/peer_addresses.h"
#include "proxy/dns/pins.h"
#include "proxy/dns/service.h"
#include "proxy/machinery.h"

namespace atl::proxy {

// Something open that new rules may close.
class LiveFlow {
 public:
  virtual ~LiveFlow() = default;
  virtual void rules_changed(const egress::SandboxRules& rules) = 0;
  virtual void cut(std::string reason) = 0;
  virtual bool is_idle(Instant now) const = 0;
};

class UdpRelay;

// Shared by the proxy's table and by the tasks that serve it.
class SandboxSession final : public Session, public std::enable_shared_from_this<SandboxSession> {
 public:
  SandboxSession(Machinery& machinery, egress::RulesPtr rules, egress::Sockets sockets);
  ~SandboxSession() override;

  egress::RulesPtr rules() const override { return rules_; }
  // New rules for what comes, and for what is open.
  void set_rules(egress::RulesPtr rules);
  // Ends run(), which cuts everything.
  void stop() { over_.set(); }
  Task<> run();

  Machinery& machinery() { return machinery_; }
  const AllowancePtr& allowance() const { return allowance_; }
  const AllowancePtr& team() const { return team_; }
  dns::Pins& pins() { return pins_; }
  dns::PeerAddresses& peers() { return peers_; }
  dns::Service& names() { return names_; }

  void add(LiveFlow& flow) { flows_.insert(&flow); }
  void remove(LiveFlow& flow) { flows_.erase(&flow); }
  // A task of this sandbox; cut with it. REQUIRES: inside one.
  void spawn(const char* name, Task<> task) { scope_->spawn(name, std::move(task)); }

 private:
  Task<> accept_loop();
  Task<> sweep_loop();
  void accepted(Fd fd, const Endpoint& source);
  void apply_limits();

  Machinery& machinery_;
  egress::RulesPtr rules_;
  egress::Sockets sockets_;
  AllowancePtr allowance_;
  AllowancePtr team_;
  dns::Pins pins_;
  dns::PeerAddresses peers_;
  dns::Service names_{*this};
  std::unique_ptr<UdpRelay> datagrams_;
  std::unordered_set<LiveFlow*> flows_;
  Event over_;
  Scope* scope_ = nullptr;  // while it runs
};

}  // namespace atl::proxy
