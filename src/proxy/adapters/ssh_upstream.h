// The upstream side of a proxied SSH connection: dialled when the first channel asks for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/scope.h"
#include "proxy/adapters/injection.h"
#include "ssh/bridge.h"
#include "ssh/client.h"

namespace atl::proxy::adapters {

class SshUpstream {
 public:
  // Everything outlives it; the scope runs what the connection needs and is joined before.
  SshUpstream(Surroundings& surroundings, const Connection& connection, const Injection& injection,
              ssh::KnownHosts known_hosts, Scope& scope);
  ~SshUpstream();

  void log_in_as(std::string client_user) { client_user_ = std::move(client_user); }
  // The first call connects, others wait for it; all get the same failure.
  Task<std::unique_ptr<ssh::Channel>> open_session();

 private:
  Task<> connect();
  Task<> connect_once();

  Surroundings& surroundings_;
  const Connection& connection_;
  const Injection& injection_;
  ssh::KnownHosts known_hosts_;
  Scope& scope_;
  std::string client_user_;
  std::unique_ptr<io::Stream> stream_;
  std::unique_ptr<ssh::Bridge> bridge_;
  std::unique_ptr<ssh::Client> client_;
  std::optional<Result<>> outcome_;
  bool connecting_ = false;
  Event settled_;
};

// Requests, bytes and the end, from the one to the other.
Task<> relay_session(ssh::Channel& client, ssh::Channel& upstream, FlowAccount& account);

}  // namespace atl::proxy::adapters
