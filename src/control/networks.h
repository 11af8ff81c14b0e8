// Sandboxes on the network: each one that has a cell is attached to the boundary
// (egress/boundary.h) with the rules that apply to it.
//
//   claim, restart, resume from disk   attached before anybody is told that it runs
//   pause in memory                    stays attached: its connections stay open as long as their
//                                      other ends allow, and go on with it
//   pause to disk, stop, delete        detached: everything it had open is cut
//   the API process starts             what runs is attached again, with the sockets that the node
//                                      has kept; connections that waited meanwhile are served
//
// Rules that cannot be had are closed rules, until they can. Loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/scope.h"
#include "control/inside_ports.h"
#include "control/network_keeper.h"
#include "control/sandboxes.h"
#include "control/trust.h"
#include "egress/boundary.h"
#include "io/reactor.h"
#include "node/client.h"

namespace atl::control {

// Says what applies to a sandbox.
class RulesSource {
 public:
  virtual ~RulesSource() = default;
  // Now. The row may be of a sandbox that is just being made, which nobody else can find yet. An
  // error means that nothing is allowed; it is asked again after a while.
  virtual Task<egress::RulesPtr> rules(Sandbox sandbox) = 0;
};

class Networks final : public NetworkKeeper {
 public:
  struct Parts {
    io::Reactor& reactor;
    node::Node& node;
    Sandboxes& sandboxes;
    egress::Boundary& boundary;
    RulesSource& rules;
    Trust* trust = nullptr;  // null: no sandbox is made to trust anybody
  };
  // REQUIRES: before Sandboxes::start(), so that what runs already is attached there.
  explicit Networks(Parts parts);
  ~Networks() override;
  Networks(const Networks&) = delete;
  Networks& operator=(const Networks&) = delete;

  // Asks again for rules that could not be had. Until cancelled.
  Task<> run();

  // The rules of a sandbox have changed: new ones count when this returns. Nothing happens to one
  // that is not attached.
  Task<> refresh(std::string sandbox_id);
  // The rules of all may have changed. New ones count when this returns; what they need inside is
  // done in the background. What fails for one is logged, and asked again.
  Task<> refresh_all();
  bool attached(std::string_view sandbox_id) const { return attached_.contains(sandbox_id); }

  // See InsidePorts.
  Task<Fd> connect(std::string team_id, std::string id, std::uint16_t port);

  Task<> attach(Sandbox sandbox, std::shared_ptr<node::NetworkSockets> sockets) override;
  void detach(std::string_view sandbox_id) override;

 private:
  struct Attached {
    std::string team_id;
    std::uint64_t turn = 0;  // of the latest question for its rules: an older answer is stale
    bool closed = false;     // its rules could not be had
  };

  struct NewRules {
    Sandbox sandbox;
    egress::RulesPtr rules;
  };
  // Nothing when it is not attached, or somebody has asked later.
  Task<std::optional<NewRules>> set_rules(std::string sandbox_id);
  Task<> refresh_some(std::vector<std::string> ids);
  Task<egress::RulesPtr> rules_or_closed(Sandbox sandbox, bool& closed);

  Parts parts_;
  InsidePorts ports_;
  std::map<std::string, Attached, std::less<>> attached_;
  Event closed_;  // set while one has closed rules that may change
};

}  // namespace atl::control
