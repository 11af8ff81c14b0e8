// Sandboxes that other sandboxes reach by name: those of the same team that share a group.
// Everything else between sandboxes is closed. Loop thread only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "control/inside_ports.h"
#include "control/sandboxes.h"
#include "egress/boundary.h"

namespace atl::control {

class SandboxPeers final : public egress::Peers {
 public:
  // The groups that a sandbox is in, whether it runs or not.
  using GroupsOf = std::function<std::vector<std::string>(const Sandbox&)>;

  SandboxPeers(Sandboxes& sandboxes, InsidePorts& ports, GroupsOf groups_of)
      : sandboxes_(sandboxes), ports_(ports), groups_of_(std::move(groups_of)) {}

  std::optional<std::string> find(const egress::SandboxRules& caller,
                                  std::string_view name) override;
  Task<Fd> connect(egress::RulesPtr caller, std::string peer_id, std::uint16_t port) override;

 private:
  bool may_meet(const egress::SandboxRules& caller, const Sandbox& peer) const;

  Sandboxes& sandboxes_;
  InsidePorts& ports_;
  GroupsOf groups_of_;
};

}  // namespace atl::control
