// The E2B dialect as one HTTP handler in front of the others: whose request it is, the sandbox or
// the route it means, errors, log line, metrics. What it does not know goes on.
//
// The parts plug in: envd and the interpreter as handlers of a sandbox's ports, the rest as routes.
// See service/README.md. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "control/access_tokens.h"
#include "control/identity.h"
#include "control/public_names.h"
#include "control/sandbox_log.h"
#include "control/sandbox_terms.h"
#include "control/sandboxes.h"
#include "service/e2b/addressing.h"
#include "service/e2b/e2b_exchange.h"
#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandbox_target.h"

namespace atl::service::e2b {

// Serves a port of a sandbox that runs. An Error becomes {"code","message"}.
using TargetHandler = std::function<Task<>(E2bExchange&, const SandboxTarget&)>;

class E2bApi {
 public:
  struct Parts {
    control::Sandboxes& sandboxes;
    control::SandboxTerms& terms;
    const control::AccessTokens& tokens;
    control::Identity& identity;
    control::SandboxLog& log;
    control::PublicNames names;
    const WallClock& clock;
    Metrics& metrics;
  };
  explicit E2bApi(Parts parts) : parts_(std::move(parts)), routes_(parts_.identity) {}
  E2bApi(const E2bApi&) = delete;
  E2bApi& operator=(const E2bApi&) = delete;

  // Serves what is E2B's; everything else goes to `next`.
  Task<> handle(http::Exchange& exchange, const http::Handler& next);

  // For the parts, before the first request.
  E2bRoutes& routes() { return routes_; }
  void on_envd(TargetHandler handler) { envd_ = std::move(handler); }
  void on_interpreter(TargetHandler handler) { interpreter_ = std::move(handler); }
  // Any other port of a sandbox that was made on terms (control/terms.h), by headers or host name.
  // Unlike the others it may be given a sandbox that is paused, and no use is kept. Without one,
  // host names go to `next`.
  void on_port(TargetHandler handler) { port_ = std::move(handler); }

 private:
  Task<> dispatch(E2bExchange& exchange, const Address& address, std::string_view& pattern);
  Task<> serve_control(E2bExchange& exchange, std::string_view& pattern);
  Task<> serve_sandbox(E2bExchange& exchange, std::string id, std::uint16_t port);
  Task<> serve_target(E2bExchange& exchange, SandboxTarget target);
  Task<control::Sandbox> reach(E2bExchange& exchange, const SandboxTarget& target);
  Task<> serve_signed(E2bExchange& exchange);
  Task<> refuse_sandbox(E2bExchange& exchange, std::string id, std::string_view message);
  bool is_for_next(const Address& address) const;
  std::optional<control::Sandbox> find_sandbox(std::string_view id) const;
  Result<control::Sandbox> find_signer(const http::Request& request);
  SandboxTarget make_target(const E2bExchange& exchange, const control::Sandbox& sandbox,
                            std::uint16_t port) const;
  void log_request(const E2bExchange& exchange, const SandboxTarget& target, int status);
  void record(const E2bExchange& exchange, std::string_view pattern, Duration took,
              const Result<>& result);

  Parts parts_;
  E2bRoutes routes_;
  TargetHandler envd_;
  TargetHandler interpreter_;
  TargetHandler port_;
  std::map<std::string, std::string, std::less<>> signing_tokens_;  // by sandbox that is there
};

}  // namespace atl::service::e2b
