// One accepted connection on its way through the proxy: what is known about it, and what those who
// handle it may use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "egress/boundary.h"
#include "egress/classifier.h"
#include "io/offload.h"
#include "io/reactor.h"
#include "io/stream.h"

namespace atl::proxy::http {
class Memory;
}

namespace atl::proxy {

// One sandbox as its connections see it. The rules are looked up for every request, so that a
// change counts at once.
class Session {
 public:
  virtual ~Session() = default;
  virtual egress::RulesPtr rules() const = 0;
};

// What a connection leaves in the audit. The owner counts bytes and writes the record when the
// connection ends; handlers fill in what only they know.
struct FlowAccount {
  egress::FlowRecord record;
  // "GET /v1/models 200"; beyond kMaxOperationsPerFlow only counted.
  void add_operation(std::string text);
};

struct Connection {
  std::unique_ptr<io::Stream> client;  // bytes that were looked at come again
  // The name is the one that was decided on (SNI, or the name whose address our resolver gave);
  // the address is where the sandbox wanted to go.
  egress::Flow flow;
  egress::Classified first;
  std::shared_ptr<Session> session;
  std::shared_ptr<FlowAccount> account;
};

// A way out. Resolves the flow's name itself (or takes the address when there is no name), refuses
// closed classes, and goes through the policy's SOCKS5 proxy when there is one. Notes in the
// account what was dialled. The only way in which this room reaches the network.
class Upstreams {
 public:
  virtual ~Upstreams() = default;
  virtual Task<std::unique_ptr<io::Stream>> dial(std::shared_ptr<Session> session,
                                                 egress::Flow flow,
                                                 std::shared_ptr<FlowAccount> account) = 0;
};

// Outlives every connection.
struct Surroundings {
  io::Reactor& reactor;
  io::OffloadPool& threads;  // for what blocks or computes: key generation, libssh
  const WallClock& clock;
  Upstreams& upstreams;
  egress::Credentials& credentials;
  egress::Approvals& approvals;
  egress::Authorities& authorities;
  std::string upstream_roots_pem;  // trusted for upstream TLS; empty: the host's
  // What http/ remembers between connections (leaves, TLS contexts); it fills this in itself.
  std::shared_ptr<http::Memory> http_memory = nullptr;
};

// Serves a connection whose contents must be looked at, until it ends. http: HTTP/1, HTTP/2 with
// prior knowledge, or TLS that is opened. The others: protocols with a credential rule. An error is
// for the audit; whatever the client can read was sent.
using ConnectionHandler = std::function<Task<>(Surroundings&, Connection)>;

}  // namespace atl::proxy
