// The routes of the native API in groups, each a thin translation to control. A handler answers, or
// returns an Error that becomes the envelope; it decides nothing and keeps nothing.
#pragma once

#include <functional>

#include "control/contexts.h"
#include "control/flow_log.h"
#include "control/identity.h"
#include "control/interpreter.h"
#include "control/network_policies.h"
#include "control/sandboxes.h"
#include "control/snapshots.h"
#include "control/warm_forks.h"
#include "http/router.h"
#include "service/native/idempotency.h"
#include "service/native/native_exchange.h"

namespace atl::service::native {

struct Published;  // service_routes.h

// A route as the contract (api/openapi.yaml) must have it.
struct RouteEntry {
  std::string method;
  std::string pattern;
  std::optional<control::Permission> permission;  // none: no key needed
};

// Adds routes that first check a permission of the caller. A route below /sandboxes/{id} is a use
// of that sandbox for as long as it is being answered, unless it only looks at what we know about
// it.
class RouteTable {
 public:
  RouteTable(http::Router& router, control::Sandboxes& sandboxes)
      : router_(router), sandboxes_(sandboxes) {}
  void add(std::string_view method, std::string_view pattern, control::Permission permission,
           NativeHandler handler);
  // Answers HEAD as well: what is public is small, and monitors and caches ask for it.
  void add_public_get(std::string_view pattern, NativeHandler handler);
  const std::vector<RouteEntry>& entries() const { return entries_; }

 private:
  http::Router& router_;
  control::Sandboxes& sandboxes_;
  std::vector<RouteEntry> entries_;
};

// Health, readiness, metrics, metadata: no key needed.
class MetaRoutes {
 public:
  MetaRoutes(const control::Sandboxes& sandboxes, const WallClock& clock, const Metrics& metrics)
      : sandboxes_(sandboxes), clock_(clock), metrics_(metrics) {}
  void add_to(RouteTable& table);

 private:
  Task<> respond_health(NativeExchange& exchange, int status, std::string_view word);

  const control::Sandboxes& sandboxes_;
  const WallClock& clock_;
  const Metrics& metrics_;
};

// Where sandboxes are reached over SSH; an address that means all of them is told as the name by
// which the client has found us.
struct SshAddress {
  std::string host;
  std::uint16_t port = 0;
};

class SandboxRoutes {
 public:
  // Without `flows` the metrics say nothing about the network; without policies, no update changes
  // one.
  SandboxRoutes(control::Sandboxes& sandboxes, control::Snapshots& snapshots,
                const WallClock& clock, control::FlowLog* flows, const Published* published,
                control::NetworkPolicies* policies)
      : sandboxes_(sandboxes),
        snapshots_(snapshots),
        clock_(clock),
        flows_(flows),
        published_(published),
        policies_(policies) {}
  void add_to(RouteTable& table);
  void announce_ssh(SshAddress address) { ssh_ = std::move(address); }

 private:
  Task<> claim(NativeExchange& exchange);
  Task<> list(NativeExchange& exchange);
  Task<> get(NativeExchange& exchange, std::string id);
  Task<> status(NativeExchange& exchange, std::string id);
  Task<> update(NativeExchange& exchange, std::string id);
  Task<> refresh(NativeExchange& exchange, std::string id);
  Task<> metrics(NativeExchange& exchange, std::string id);
  Task<> remove(NativeExchange& exchange, std::string id);
  Json view(const NativeExchange& exchange, const control::Sandbox& sandbox,
            bool listed = false) const;

  control::Sandboxes& sandboxes_;
  control::Snapshots& snapshots_;
  const WallClock& clock_;
  control::FlowLog* flows_;
  const Published* published_;  // null: there are no services
  std::optional<SshAddress> ssh_;
  control::NetworkPolicies* policies_;
};

// Pausing, snapshots, restoring, forks.
class StateRoutes {
 public:
  StateRoutes(control::Sandboxes& sandboxes, control::Snapshots& snapshots,
              control::Contexts& contexts, const Published* published)
      : sandboxes_(sandboxes),
        snapshots_(snapshots),
        warm_forks_(contexts, sandboxes, snapshots),
        published_(published) {}
  void add_to(RouteTable& table);

 private:
  Task<> pause(NativeExchange& exchange, std::string id);
  Task<> resume(NativeExchange& exchange, std::string id);
  Task<> take(NativeExchange& exchange, std::string id);
  Task<> list(NativeExchange& exchange, std::string id);
  Task<> get(NativeExchange& exchange, std::string id);
  Task<> remove(NativeExchange& exchange, std::string id);
  Task<> restore(NativeExchange& exchange, std::string id);
  Task<> fork(NativeExchange& exchange, std::string id);
  Task<> tree(NativeExchange& exchange, std::string id);
  Task<> trees(NativeExchange& exchange);
  Json fork_json(const std::string& source_id, const control::ClaimAnswer& answer) const;

  control::Sandboxes& sandboxes_;
  control::Snapshots& snapshots_;
  control::WarmForks warm_forks_;
  const Published* published_;  // null: there are no services
};

class ContextRoutes {
 public:
  ContextRoutes(control::Contexts& contexts, Idempotency& idempotency)
      : contexts_(contexts), idempotency_(idempotency) {}
  void add_to(RouteTable& table);

 private:
  // Code that is run while an interpreter is made.
  struct FirstCode {
    std::optional<std::string> text;
    std::uint64_t timeout_ms = 0;
    bool wait = false;
  };
  Task<Json> create_interpreter(control::SandboxRef sandbox, control::InterpreterRequest request,
                                FirstCode code);
  Task<> execute(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> interrupt(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> restart(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> create(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> create_and_stream(NativeExchange& exchange, control::SandboxRef sandbox,
                           control::ContextRequest request, Json env);
  Task<> execute_and_stream(NativeExchange& exchange, control::SandboxRef sandbox, std::string id,
                            std::string code, std::uint64_t timeout_ms);
  Task<> list(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> get(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> remove(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> signal(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> input(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> resize(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> stream(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);
  Task<> socket(NativeExchange& exchange, control::SandboxRef sandbox, std::string id);

  control::Contexts& contexts_;
  Idempotency& idempotency_;
};

// The sandbox that {id} names, for the caller's team.
control::SandboxRef sandbox_ref(const NativeExchange& exchange,
                                const http::PathParameters& parameters);
// The answer is to come line by line (NDJSON).
bool wants_lines(const NativeExchange& exchange);
// Clients and proxies give up on an answer in which nothing comes for some minutes: after this
// long there is a blank line.
inline constexpr Duration kBlankLineInterval = std::chrono::seconds{5};
Task<> start_lines(NativeExchange& exchange, int status);
Json snapshot_json(const control::Snapshot& snapshot);
std::string parameter(const http::PathParameters& parameters, std::string_view name);

}  // namespace atl::service::native
