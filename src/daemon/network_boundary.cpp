#include "daemon/network_boundary.h"

#include "proxy/adapters/adapters.h"
#include "proxy/http/serve.h"

namespace atl::daemon {

proxy::Handlers all_handlers() {
  return {.http = proxy::http::serve,
          .ssh = proxy::adapters::serve_ssh,
          .redis = proxy::adapters::serve_redis,
          .postgres = proxy::adapters::serve_postgres,
          .mqtt = proxy::adapters::serve_mqtt,
          .socks5 = proxy::adapters::serve_socks5};
}

NetworkBoundary::NetworkBoundary(Parts parts)
    : ports_(parts.reactor, parts.node, parts.sandboxes),
      openers_(parts.reactor, parts.sandboxes),
      peers_(parts.sandboxes, ports_, std::move(parts.groups_of)),
      trust_({.reactor = parts.reactor,
              .sandboxes = parts.sandboxes,
              .authorities = parts.authorities,
              .guest_socket = std::move(parts.guest_socket)}),
      proxy_({.reactor = parts.reactor,
              .threads = parts.threads,
              .clock = parts.clock,
              .metrics = parts.metrics,
              .flows = parts.flows,
              .credentials = parts.credentials,
              .approvals = parts.approvals,
              .authorities = parts.authorities,
              .peers = peers_,
              .openers = openers_,
              .open_datagram_socket =
                  [this](std::string id) { return ports_.open_datagram_socket(std::move(id)); },
              .handlers = std::move(parts.handlers),
              .opened = std::move(parts.opened),
              .dns_upstreams = std::move(parts.dns_upstreams),
              .upstream_roots_pem = std::move(parts.upstream_roots_pem),
              .default_limits = parts.default_limits}),
      networks_({.reactor = parts.reactor,
                 .node = parts.node,
                 .sandboxes = parts.sandboxes,
                 .boundary = proxy_,
                 .rules = parts.rules,
                 .trust = &trust_}) {}

}  // namespace atl::daemon
