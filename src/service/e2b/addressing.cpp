#include "service/e2b/addressing.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace atl::service::e2b {
namespace {

constexpr std::array<std::string_view, 11> kRoots{
    "sandboxes", "snapshots", "templates", "volumes", "volumecontent",    "secrets",
    "teams",     "health",    "v2",        "v3",      "default-templates"};

bool is_control_path(std::string_view path) {
  const auto root = path.substr(std::min<std::size_t>(1, path.size()));
  return std::ranges::find(kRoots, root.substr(0, root.find('/'))) != kRoots.end();
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number < 1 || *number > 65'535) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(*number);
}

Address by_headers(std::string_view id, std::string_view port_text) {
  const auto port = parse_port(port_text);
  if (id.empty() || !port) {
    return {.kind = Address::Kind::kBad};
  }
  return {.kind = Address::Kind::kSandbox, .sandbox_id = to_lower(id), .port = *port};
}

bool is_client(const http::Request& request) {
  return request.headers.get("X-API-Key").starts_with("e2b_") ||
         !client_version(request.headers).empty();
}

}  // namespace

Address find_address(const control::PublicNames& names, const http::Request& request) {
  const auto id = trim(request.headers.get("E2b-Sandbox-Id"));
  const auto port = trim(request.headers.get("E2b-Sandbox-Port"));
  if (!id.empty() || !port.empty()) {
    return by_headers(id, port);
  }
  const auto host = request.headers.get("Host");
  const std::string label = control::find_label(names, host);
  const bool shared_name = label.empty() || label == "api" || label == "sandbox";
  if (!shared_name) {
    // Names of the other form, {id}--p{port}, are those of declared services, functions among them,
    // which have a port number in common with the agent.
    const auto target = control::find_target(names, host, request.path);
    return target && label == concat(target->port, "-", target->sandbox_id)
               ? Address{.kind = Address::Kind::kSandbox,
                         .sandbox_id = target->sandbox_id,
                         .port = target->port,
                         .by_host = true}
               : Address{};
  }
  if (request.path == "/files" && http::query_value(request.query, "signature")) {
    return {.kind = Address::Kind::kSigned};
  }
  if (label == "sandbox") {
    return {.kind = Address::Kind::kBad};
  }
  const bool ours = is_control_path(request.path) || (is_client(request) && label == "api");
  const bool unknown = is_client(request) && !request.path.starts_with("/api/v1") &&
                       !request.path.starts_with("/s/");
  return {.kind = ours || unknown ? Address::Kind::kControl : Address::Kind::kNone};
}

std::string client_version(const http::Headers& headers) {
  constexpr std::size_t kMaxBytes = 64;
  for (const auto word : split(headers.get("User-Agent"), ' ')) {
    if (word.starts_with("e2b") && word.size() <= kMaxBytes && is_utf8(word)) {
      return std::string{word};
    }
  }
  return {};
}

}  // namespace atl::service::e2b
