// The way out. Everything that this room connects to goes through here.
//
// A name is resolved by us, at this moment, and only addresses of open classes that the policy
// allows are dialled: where the sandbox wanted to go is at most a hint which of them to try first.
// NAME.atoll.internal leads into another sandbox, the policy's SOCKS5 proxy to everything else when
// there is one.
#pragma once

#include "proxy/connection.h"
#include "proxy/connector.h"
#include "proxy/host_guard.h"

namespace atl::proxy {

// Names made into addresses by our own resolver.
class Names {
 public:
  virtual ~Names() = default;
  // Those of `v6_first`'s family first. At least one; kNotFound when there is none.
  virtual Task<std::vector<egress::Address>> addresses(std::string name, bool v6_first) = 0;
};

inline constexpr std::string_view kPeerSuffix = ".atoll.internal";
inline constexpr std::string_view kPeerKind = "peer";  // of the record of a flow to one
inline constexpr std::string_view kPeerElsewhere = "peers are reached at their own addresses";
// "db" of "db.atoll.internal"; nothing for other names.
std::optional<std::string_view> peer_label(std::string_view name);

class Dialer final : public Upstreams {
 public:
  Dialer(io::Reactor& reactor, const HostGuard& guard, Names& names,
         egress::Credentials& credentials, egress::Peers& peers)
      : reactor_(reactor), guard_(guard), names_(names), credentials_(credentials), peers_(peers) {}

  Task<std::unique_ptr<io::Stream>> dial(std::shared_ptr<Session> session, egress::Flow flow,
                                         std::shared_ptr<FlowAccount> account) override;
  // The same as a bare socket. kPermissionDenied: class or policy. `approved`: the rule that
  // somebody was asked about (see rule_key); an address that another rule asks about is not
  // dialled.
  Task<Fd> connect(egress::RulesPtr rules, egress::Flow flow, std::shared_ptr<FlowAccount> account,
                   std::string approved);

 private:
  Task<Fd> connect_peer(egress::RulesPtr rules, std::string label, egress::Flow flow,
                        std::shared_ptr<FlowAccount> account);
  Task<std::vector<Endpoint>> candidates(egress::RulesPtr rules, egress::Flow flow,
                                         std::string approved);
  Task<Fd> connect_through(egress::RulesPtr rules, egress::UpstreamProxy proxy, Endpoint target,
                           std::shared_ptr<FlowAccount> account);
  Task<std::vector<Endpoint>> proxy_endpoints(egress::UpstreamProxy proxy);

  io::Reactor& reactor_;
  const HostGuard& guard_;
  Names& names_;
  egress::Credentials& credentials_;
  egress::Peers& peers_;
};

// The proxy that these rules send everything through: a floor's before the sandbox's own.
const egress::UpstreamProxy* upstream_proxy(const egress::SandboxRules& rules);

}  // namespace atl::proxy
