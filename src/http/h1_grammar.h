// The grammar of a complete HTTP/1 head, by Beast's parser.
#pragma once

#include <optional>
#include <string_view>

#include "http/http1_gate.h"

namespace atl::http {

// Parses one head, empty line included, that the scanner let through. Fills in the start line and
// the fields; the gate does the rest.
std::optional<Refusal> parse_head(std::string_view text, Role role, Http1Head& head);

}  // namespace atl::http
