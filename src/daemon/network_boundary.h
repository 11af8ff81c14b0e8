// The network of sandboxes, put together: the proxy, who is attached to it, and what it asks of
// others.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/metrics.h"
#include "control/inside_ports.h"
#include "control/networks.h"
#include "control/openers.h"
#include "control/peers.h"
#include "control/trust.h"
#include "egress/boundary.h"
#include "io/offload.h"
#include "proxy/proxy.h"

namespace atl::daemon {

// Every protocol that this build can carry by looking into it.
proxy::Handlers all_handlers();

class NetworkBoundary {
 public:
  struct Parts {
    io::Reactor& reactor;
    node::Node& node;
    control::Sandboxes& sandboxes;
    const WallClock& clock;
    Metrics& metrics;
    io::OffloadPool& threads;
    egress::Flows& flows;
    egress::Credentials& credentials;
    egress::Approvals& approvals;
    egress::Authorities& authorities;
    control::RulesSource& rules;
    control::SandboxPeers::GroupsOf groups_of;
    // Of a sandbox that has a cell, also before anybody may use it.
    std::function<std::string(const std::string& id)> guest_socket;
    proxy::Handlers handlers;
    std::vector<egress::Network> opened;
    std::vector<proxy::Endpoint> dns_upstreams;
    std::string upstream_roots_pem;
    egress::TrafficLimits default_limits;
  };
  // REQUIRES: before Sandboxes::start().
  explicit NetworkBoundary(Parts parts);

  proxy::Proxy& proxy() { return proxy_; }
  control::Networks& networks() { return networks_; }
  control::InsidePorts& ports() { return ports_; }
  control::Trust& trust() { return trust_; }

 private:
  control::InsidePorts ports_;
  control::GuestOpeners openers_;
  control::SandboxPeers peers_;
  control::Trust trust_;
  proxy::Proxy proxy_;
  control::Networks networks_;
};

}  // namespace atl::daemon
