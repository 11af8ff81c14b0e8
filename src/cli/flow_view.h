// Flows as the API gives them: as lines for people, and as values that policies are asked about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/console.h"
#include "egress/learn.h"

namespace atl::cli {

// One line; with the sandbox when several are shown.
std::string flow_line(const Console& console, const Json& flow, bool with_sandbox);

// "203.0.113.7:443", "[2001:db8::1]:443"
struct AddressAndPort {
  egress::Address address;
  std::uint16_t port = 0;
};
std::optional<AddressAndPort> parse_endpoint(std::string_view text);

// Nothing for what no policy decides: DNS questions, what came in, closed classes, limits.
std::optional<egress::Observation> observation_of(const Json& flow);
// The flows of a page, of several, or of lines.
Result<std::vector<Json>> parse_flows(std::string_view text);

}  // namespace atl::cli
