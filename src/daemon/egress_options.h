// What an operator says about the network boundary, for all sandboxes.
#pragma once

#include <string>
#include <vector>

#include "daemon/arguments.h"
#include "egress/address.h"
#include "egress/boundary.h"
#include "proxy/endpoint.h"

namespace atl::daemon {

inline constexpr std::size_t kMaxRootsBytes = std::size_t{4} << 20;

struct EgressOptions {
  std::vector<proxy::Endpoint> dns_upstreams;  // empty: the host's resolv.conf
  std::vector<egress::Network> opened;         // although their class is closed
  egress::TrafficLimits limits;                // of a sandbox whose rules have none
  std::string roots_file;                      // of `serve`; empty: the host's roots
  int roots_fd = -1;                           // the same, handed to the API process
};

// --dns-upstream, --open-egress (each any number of times), --egress-roots, --egress-connections,
// --egress-bandwidth.
Result<EgressOptions> parse_egress(const Arguments& arguments);
void append_words(const EgressOptions& options, std::vector<std::string>& words);
// The PEM text that was handed over; empty when there is none.
Result<std::string> read_egress_roots(const EgressOptions& options);

}  // namespace atl::daemon
