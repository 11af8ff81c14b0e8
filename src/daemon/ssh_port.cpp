#include "daemon/ssh_port.h"

#include "io/stream.h"

namespace atl::daemon {

Task<std::unique_ptr<ingress::SshGateway>> open_ssh(SshParts parts, const ApiOptions& options) {
  if (options.ssh_listen.empty()) {
    co_return nullptr;
  }
  CO_TRY(const auto address, parse_listen_address("--ssh-listen", options.ssh_listen));
  auto bound = io::Listener::bind_tcp(address.host, address.port);
  if (!bound) {
    co_return fail(std::move(bound.error()).note("--ssh-listen"));
  }
  CO_TRY(auto host_key,
         co_await control::load_or_make_ssh_host_key(parts.store, parts.keyring, parts.clock));
  auto gateway = std::make_unique<ingress::SshGateway>(
      ingress::SshGateway::Parts{.reactor = parts.reactor,
                                 .sandboxes = parts.sandboxes,
                                 .keys = parts.keys,
                                 .host_key = std::move(host_key),
                                 .connect = std::move(parts.connect)},
      *std::move(bound));
  parts.native.announce_ssh({.host = address.host, .port = gateway->port()});
  co_return std::move(gateway);
}

}  // namespace atl::daemon
