// The border between the proxy, which has the sockets and parses, and the rest of the API process,
// which knows sandboxes, credentials and people. Only values and narrow interfaces cross it, so
// that either side is tested without the other.
//
// proxy implements Boundary; control implements the others. The daemon introduces them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/task.h"
#include "egress/binding.h"
#include "egress/decision.h"
#include "egress/policy.h"

namespace atl::egress {

// 0: no limit.
struct TrafficLimits {
  std::uint32_t connections = 0;
  std::uint64_t bytes_per_second_out = 0;
  std::uint64_t bytes_per_second_in = 0;
};

// Everything the proxy may know about a sandbox. Immutable: a change is a new one.
struct SandboxRules {
  struct Layer {
    std::string origin;  // "operator", "template", "sandbox"
    Policy policy;
  };
  std::string sandbox_id;
  std::string team_id;
  std::string name;           // of the sandbox; may be empty
  std::vector<Layer> layers;  // floors first, then the sandbox's own
  std::vector<Binding> bindings;
  std::vector<std::string> groups;  // in which it finds NAME.atoll.internal
  TrafficLimits sandbox_limits;
  TrafficLimits team_limits;

  std::vector<NamedPolicy> stack() const;  // points into layers
  const Binding* binding(std::string_view ref) const;
  // Any layer has a rule that needs TLS to be opened: the sandbox must trust its authority.
  bool needs_authority() const;
};
using RulesPtr = std::shared_ptr<const SandboxRules>;

// Sockets inside the sandbox's network namespace, made by the node, non-blocking. All are
// dual-stack where the kernel has IPv6. `tcp` listens and gets every connection to an address
// outside (getsockname says which: transparent proxying, no address translation); `udp` gets every
// datagram but those to ports 53 and 443, with its original destination as ancillary data; `dns`
// is bound to port 53 of every address.
struct Sockets {
  Fd tcp;
  Fd udp;
  Fd dns;
};

// Which process inside opened a connection, as far as the sandbox says: it can only lie about
// itself.
struct Opener {
  std::int64_t pid = 0;  // 0: not known
  std::string program;   // its name
  std::string context_id;
};

enum class Outcome : std::uint8_t { kOpen, kAllowed, kDenied, kFailed };

// One flow, or one DNS question, as the audit keeps it. Never holds a secret, a header value or a
// query string.
struct FlowRecord {
  std::string id;  // unique
  std::string sandbox_id;
  std::string team_id;
  UnixMillis began_at = 0;
  std::int64_t duration_ms = 0;
  Transport transport = Transport::kTcp;
  std::string kind = "flow";  // "flow", "dns", "ingress", "peer"
  AppProtocol protocol = AppProtocol::kUnknown;
  std::string source;       // address:port inside
  std::string destination;  // address:port the sandbox asked for
  std::string dialled;      // address:port we connected to; empty: none
  std::string name;         // host name; empty: unknown
  Outcome outcome = Outcome::kOpen;
  std::string origin;  // whose policy decided: "sandbox", "operator", "class", "limit", "dns"
  std::string rule;
  std::string reason;  // for people; why it was denied or failed
  bool intercepted = false;
  std::string credential;  // ref and version of what was injected; never the value
  // "GET /v1/models 200", "tools/call read_file denied": the first kMaxOperationsPerFlow.
  std::vector<std::string> operations;
  std::uint64_t operations_left_out = 0;
  std::uint64_t bytes_out = 0;  // from the sandbox
  std::uint64_t bytes_in = 0;
  Opener opener;
};
inline constexpr std::size_t kMaxOperationsPerFlow = 32;
inline constexpr std::size_t kMaxOperationBytes = 256;

class Flows {
 public:
  virtual ~Flows() = default;
  // Told when a flow is decided (outcome kOpen or kDenied) and, if it was open, when it ends; the
  // second call has the same id. Must not block.
  virtual void record(const FlowRecord& flow) = 0;
};

class Credentials {
 public:
  virtual ~Credentials() = default;
  // Fails closed: an error means that nothing may be sent. Its message holds no secret.
  virtual Task<MaterialPtr> resolve(RulesPtr rules, std::string ref) = 0;
};

// What somebody has to answer before it goes on.
struct ApprovalQuestion {
  std::string sandbox_id;
  std::string team_id;
  std::string flow_id;
  std::string rule;
  std::string what;  // "POST https://api.example.com/v1/pay", "tcp 203.0.113.7:5432"
};

class Approvals {
 public:
  virtual ~Approvals() = default;
  // True: go on. False: refused, or nobody answered in time. Cancelled with its caller.
  virtual Task<bool> ask(ApprovalQuestion question) = 0;
};

// A certificate authority of one sandbox; PEM. The key never leaves this process.
struct Authority {
  std::string certificate_pem;
  std::string key_pem;
};
class Authorities {
 public:
  virtual ~Authorities() = default;
  virtual Task<std::shared_ptr<const Authority>> authority(std::string sandbox_id) = 0;
};

// Other sandboxes by name.
class Peers {
 public:
  virtual ~Peers() = default;
  // "db" of db.atoll.internal, in one of the caller's groups; nothing when there is none.
  virtual std::optional<std::string> find(const SandboxRules& caller, std::string_view name) = 0;
  // A socket connected to 127.0.0.1:port inside the peer, which is woken if it may be.
  virtual Task<Fd> connect(RulesPtr caller, std::string peer_id, std::uint16_t port) = 0;
};

class Openers {
 public:
  virtual ~Openers() = default;
  // Who inside holds the socket bound to this port. Empty when nobody knows.
  virtual Task<Opener> find(std::string sandbox_id, Transport transport, std::uint16_t port) = 0;
};

// The proxy, as control sees it. Loop thread only.
class Boundary {
 public:
  virtual ~Boundary() = default;
  // From now on the sandbox's traffic is served on these sockets; replaces earlier ones.
  virtual Result<> attach(RulesPtr rules, Sockets sockets) = 0;
  // New requests are judged by the new rules at once; what is open and no longer allowed is cut.
  virtual void set_rules(RulesPtr rules) = 0;
  // Everything open is cut.
  virtual void detach(std::string_view sandbox_id) = 0;
};

}  // namespace atl::egress
