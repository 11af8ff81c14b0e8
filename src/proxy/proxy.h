// The proxy: everything that leaves a sandbox.
//
// One session per sandbox, one task per connection, all on the loop of the API process. The rules
// come in as values and are looked up anew for each connection and request. Whoever owns a Proxy
// runs it; sandboxes that were attached before are served from then on.
#pragma once

#include <functional>
#include <memory>

#include "base/metrics.h"
#include "egress/boundary.h"
#include "proxy/connection.h"
#include "proxy/endpoint.h"

namespace atl::proxy {

// Carry connections whose contents must be looked at. One that is missing and is needed refuses.
struct Handlers {
  ConnectionHandler http;
  ConnectionHandler ssh;
  ConnectionHandler redis;
  ConnectionHandler postgres;
  ConnectionHandler mqtt;
  ConnectionHandler socks5;
};

// A datagram socket of both families inside the sandbox's namespace, non-blocking and not bound.
using OpenDatagramSocket = std::function<Task<Fd>(std::string sandbox_id)>;

// Everything that is referred to outlives the proxy.
struct ProxyOptions {
  io::Reactor& reactor;
  io::OffloadPool& threads;
  const WallClock& clock;
  Metrics& metrics;
  egress::Flows& flows;
  egress::Credentials& credentials;
  egress::Approvals& approvals;
  egress::Authorities& authorities;
  egress::Peers& peers;
  egress::Openers& openers;
  OpenDatagramSocket open_datagram_socket;  // without it there is no UDP
  Handlers handlers;
  std::vector<egress::Network> opened;   // closed classes that the operator opens
  std::vector<Endpoint> dns_upstreams;   // empty: those of the host's resolv.conf
  std::string upstream_roots_pem;        // empty: the host's
  egress::TrafficLimits default_limits;  // of a sandbox, where its rules have none
};

class Proxy final : public egress::Boundary {
 public:
  explicit Proxy(ProxyOptions options);
  ~Proxy() override;

  Result<> attach(egress::RulesPtr rules, egress::Sockets sockets) override;
  void set_rules(egress::RulesPtr rules) override;
  void detach(std::string_view sandbox_id) override;

  // Serves until it is cancelled, then cuts everything.
  Task<> run();

  // For those who reach the network in a sandbox's name elsewhere.
  Surroundings& surroundings();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::proxy
