// What somebody is told who cannot be let through to an open port of a sandbox: JSON for programs,
// a page for people who look with a browser. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace atl::ingress {

struct PortRefusal {
  int status = 502;
  std::string sandbox_id;
  std::optional<std::uint16_t> port;  // where it matters which one: a closed port
  std::string message;
};

http::Response refusal_response(const http::Request& request, const PortRefusal& refusal);

// A browser that goes to a page, as opposed to a program or a script on one.
bool is_navigation(const http::Request& request);

}  // namespace atl::ingress
