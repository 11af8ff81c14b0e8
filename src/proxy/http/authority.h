// The authority of a request: the host and port it says it is for.
#pragma once

#include <optional>

#include "egress/decision.h"
#include "http/http1_gate.h"
#include "proxy/http/exchange.h"

namespace atl::proxy::http {

// Nothing when it is exactly the decided name and port; then it is brought into one form. A request
// without one (HTTP/1.0) gets the decided one. 421 for another host, 400 for what is none.
std::optional<atl::http::Refusal> check_authority(const egress::Flow& flow, bool secure,
                                                  RequestHead& request);

}  // namespace atl::proxy::http
