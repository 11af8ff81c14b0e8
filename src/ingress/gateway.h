// The way in: requests for services of sandboxes, told apart from those for the API by their host
// or path (control/public_names.h).
//
//   match -> cross-origin rules -> who asks -> how often -> rewrite -> wake -> start -> pass on
//
// Only what a public service declares exists; everything else is one and the same 404. A preview is
// another way to one port: whoever has its grant passes without routes. Ports of sandboxes that
// were made on terms are open without a service, as those terms say. Loop thread only.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "control/access_tokens.h"
#include "control/previews.h"
#include "control/public_names.h"
#include "control/sandbox_terms.h"
#include "control/sandboxes.h"
#include "control/services.h"
#include "egress/boundary.h"
#include "http/server.h"
#include "ingress/forwarder.h"
#include "ingress/port_refusal.h"
#include "ingress/rate_limits.h"
#include "ingress/service_runner.h"

namespace atl::ingress {

inline constexpr std::size_t kMaxExchangesPerSandbox = 512;

// Once the sandbox runs, whatever breaks a connection to it is the service's fault.
Error between_us(Error error);

// A port of a sandbox that somebody has addressed, however.
struct OpenPort {
  std::string team_id;
  std::string sandbox_id;
  std::uint16_t port = 0;
  control::TermsPtr terms;  // null: only what services declare is open
};

class Gateway {
 public:
  struct Parts {
    control::Sandboxes& sandboxes;
    control::SandboxTerms& terms;
    const control::AccessTokens& tokens;
    control::Services& services;
    control::Previews& previews;
    ServiceRunner& runner;
    Upstreams& upstreams;
    control::PublicNames names;
    const WallClock& clock;
    Metrics& metrics;
    egress::Flows* flows = nullptr;  // the audit; may be null
  };
  explicit Gateway(Parts parts);

  // Serves what is for a service; everything else goes to `api`.
  Task<> handle(http::Exchange& exchange, const http::Handler& api);
  // A request to a port, whose host and path are not looked at (gateway_ports.cpp).
  Task<> serve_port(http::Exchange& exchange, OpenPort to);

 private:
  // One request, from its arrival to its line in the audit.
  struct Visit {
    control::PublicTarget target;
    std::string path;  // below the prefix, as sent
    std::string sandbox_id;
    std::string team_id;
    std::string service_id;
    std::string route_id;
    egress::Outcome outcome = egress::Outcome::kDenied;
    std::string reason;
    Traffic traffic;
    Instant began;
    UnixMillis began_at = 0;
  };

  Task<> serve(http::Exchange& exchange, Visit& visit);
  // Previews (gateway_previews.cpp).
  std::optional<control::Preview> find_preview(const http::Request& request,
                                               const Visit& visit) const;
  Task<> open_preview(http::Exchange& exchange, Visit& visit);
  Task<> serve_preview(http::Exchange& exchange, Visit& visit, control::Preview preview);
  Forward preview_forward(const http::Exchange& exchange, const Visit& visit,
                          const control::Preview& preview) const;
  Task<> serve_route(http::Exchange& exchange, Visit& visit, control::SandboxServicesPtr services,
                     const control::Service& service, const control::ServiceRoute& route);
  Task<> pass_on(http::Exchange& exchange, Visit& visit, control::SandboxServicesPtr services,
                 const control::Service& service, const control::ServiceRoute& route,
                 http::Headers extra);
  Task<Forward> prepare(http::Exchange& exchange, Visit& visit,
                        control::SandboxServicesPtr services, const control::Service& service,
                        const control::ServiceRoute& route);
  // Open ports (gateway_ports.cpp).
  Task<> admit_to_port(http::Exchange& exchange, Visit& visit, OpenPort to);
  Task<control::Sandbox> wake_on_terms(std::string team_id, std::string sandbox_id);
  Forward port_forward(const http::Exchange& exchange, const Visit& visit, const OpenPort& to,
                       std::int64_t generation) const;
  Task<> knock(http::Exchange& exchange, Visit& visit, Forward forward);
  Task<> refuse_port(http::Exchange& exchange, Visit& visit, PortRefusal refusal);
  Task<> wake(const Visit& visit, bool may_resume);
  Task<> refuse(http::Exchange& exchange, Visit& visit, int status, std::string_view code,
                std::string message, http::Headers extra = {});
  Task<> refuse(http::Exchange& exchange, Visit& visit, const Error& error, http::Headers extra);
  void record(const http::Exchange& exchange, const Visit& visit) const;

  Parts parts_;
  RateLimits rates_;
  std::map<std::string, std::size_t, std::less<>> busy_;  // exchanges by sandbox, and by function
  Counter& requests_;
  Counter& refusals_;
  Counter& bytes_in_;
  Counter& bytes_out_;
};

}  // namespace atl::ingress
