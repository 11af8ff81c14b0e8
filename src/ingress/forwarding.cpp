#include "ingress/forwarding.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/strings.h"
#include "http/http1_gate.h"

namespace atl::ingress {
namespace {

using http::Headers;

constexpr std::array<std::string_view, 10> kHopByHop{"connection",
                                                     "keep-alive",
                                                     "proxy-connection",
                                                     "proxy-authenticate",
                                                     "proxy-authorization",
                                                     "te",
                                                     "trailer",
                                                     "transfer-encoding",
                                                     "upgrade",
                                                     "content-length"};

// Said about a whole origin, which is not the service's alone where it has no host of its own.
constexpr std::array<std::string_view, 6> kOfTheOrigin{
    "service-worker-allowed", "clear-site-data", "strict-transport-security", "nel", "report-to",
    "reporting-endpoints"};

// Said by us only.
constexpr std::array<std::string_view, 9> kOurs{"host",
                                                "expect",
                                                "x-forwarded-for",
                                                "x-forwarded-host",
                                                "x-forwarded-proto",
                                                "forwarded",
                                                "x-forwarded-prefix",
                                                "x-forwarded-port",
                                                "x-real-ip"};

template <std::size_t kCount>
bool is_one_of(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::ranges::any_of(names, [&](auto each) { return equals_ignore_case(each, name); });
}

// Fields that a Connection field names belong to the connection as well.
std::set<std::string> connection_fields(const Headers& headers) {
  std::set<std::string> names;
  for (const auto& [name, value] : headers.lines()) {
    if (equals_ignore_case(name, "connection")) {
      for (const auto part : split(value, ',')) {
        names.insert(to_lower(trim(part)));
      }
    }
  }
  return names;
}

std::string_view host_of_peer(std::string_view peer) {
  auto host = peer.substr(0, peer.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

bool is_preview_cookie(std::string_view name) {
  return name == kPreviewCookie || name == kPreviewPathCookie || name == kPlainPreviewCookie;
}

// The cookies without those that open previews.
std::string other_cookies(std::string_view value) {
  std::string out;
  for (const auto part : split(value, ';')) {
    const auto cookie = trim(part);
    if (!cookie.empty() && !is_preview_cookie(cookie.substr(0, cookie.find('=')))) {
      out += concat(out.empty() ? "" : "; ", cookie);
    }
  }
  return out;
}

void add_forwarded(const http::Request& request, const RequestView& view, Headers& fields) {
  const auto peer = host_of_peer(view.peer);
  // Somebody on this machine stands in front of us (a reverse proxy): what it says about its own
  // client is kept. Everybody else only says it about itself.
  const bool behind_proxy = peer == "127.0.0.1" || peer == "::1" || view.peer == "unix";
  const auto said = [&](std::string_view name, std::string_view otherwise) {
    const auto value = request.headers.get(name);
    return std::string{behind_proxy && !value.empty() ? value : otherwise};
  };
  const auto before = behind_proxy ? request.headers.get("x-forwarded-for") : std::string_view{};
  fields.add("x-forwarded-for", before.empty() ? std::string{peer} : concat(before, ", ", peer));
  fields.add("x-forwarded-host", said("x-forwarded-host", request.headers.get("host")));
  fields.add("x-forwarded-proto", said("x-forwarded-proto", view.scheme));
  if (!view.prefix.empty()) {
    fields.add("x-forwarded-prefix", view.prefix);
  }
}

// "default-src 'self'; frame-ancestors 'none'" without the part that keeps it out of frames.
std::string framable_policy(std::string_view policy) {
  std::string out;
  for (const auto part : split(policy, ';')) {
    const auto directive = trim(part);
    const auto name = directive.substr(0, directive.find(' '));
    if (!directive.empty() && !equals_ignore_case(name, "frame-ancestors")) {
      out += concat(out.empty() ? "" : "; ", directive);
    }
  }
  return out;
}

// A cookie stays on its own host, and below its own path where the service shares that.
std::string confined_cookie(std::string_view cookie, std::string_view prefix) {
  std::string out;
  std::string path{prefix};
  for (const auto part : split(cookie, ';')) {
    const auto attribute = trim(part);
    const auto name = attribute.substr(0, attribute.find('='));
    if (!prefix.empty() && !out.empty() && equals_ignore_case(name, "path") &&
        attribute.size() > name.size()) {
      const auto own = attribute.substr(name.size() + 1);
      path = own.starts_with('/') && own.size() > 1 ? concat(prefix, own) : path;
    } else if (out.empty() || !equals_ignore_case(name, "domain")) {
      out += concat(out.empty() ? "" : "; ", attribute);
    }
  }
  return prefix.empty() ? out : concat(out, "; Path=", path);
}

std::string put_prefix_back(std::string_view location, std::string_view prefix) {
  const bool is_path = location.starts_with('/') && !location.starts_with("//");
  const bool has_it = location.starts_with(prefix) &&
                      (location.size() == prefix.size() || location[prefix.size()] == '/');
  return is_path && !has_it ? concat(prefix, location) : std::string{location};
}

}  // namespace

Headers request_fields(const http::Request& request, const RequestView& view) {
  using Mode = control::RouteAuth::Mode;
  const auto listed = connection_fields(request.headers);
  std::string_view secret;
  if (view.auth != nullptr && view.auth->mode != Mode::kNone) {
    secret = view.auth->mode == Mode::kBearer ? std::string_view{"authorization"}
                                              : std::string_view{view.auth->header_name};
  }
  Headers fields{{"host", std::string{request.headers.get("host")}}};
  for (const auto& [name, value] : request.headers.lines()) {
    const std::string lower = to_lower(name);
    const bool stays = is_one_of(lower, kHopByHop) || is_one_of(lower, kOurs) ||
                       listed.contains(lower) || lower == kPreviewHeader ||
                       lower.starts_with("sec-websocket-") || lower.starts_with("x-atoll-") ||
                       (!secret.empty() && equals_ignore_case(lower, secret));
    if (stays) {
      continue;
    }
    if (lower == "cookie") {
      if (const auto rest = other_cookies(value); !rest.empty()) {
        fields.add(lower, rest);
      }
      continue;
    }
    fields.add(lower, value);
  }
  add_forwarded(request, view, fields);
  return fields;
}

Headers response_fields(const Headers& headers, const ResponseView& view) {
  const auto listed = connection_fields(headers);
  Headers fields;
  for (const auto& [name, value] : headers.lines()) {
    const std::string lower = to_lower(name);
    if (is_one_of(lower, kHopByHop) || listed.contains(lower) || lower == "alt-svc" ||
        (view.own_cors && lower.starts_with("access-control-")) ||
        (view.framable && lower == "x-frame-options") ||
        (!view.prefix.empty() && is_one_of(lower, kOfTheOrigin))) {
      continue;
    }
    if (view.framable && lower.starts_with("content-security-policy")) {
      if (const auto rest = framable_policy(value); !rest.empty()) {
        fields.add(lower, rest);
      }
    } else if (lower == "set-cookie") {
      fields.add(lower, confined_cookie(value, view.prefix));
    } else if (!view.prefix.empty() && (lower == "location" || lower == "content-location")) {
      fields.add(lower, put_prefix_back(value, view.prefix));
    } else {
      fields.add(lower, value);
    }
  }
  return fields;
}

std::vector<std::string> cookie_values(const Headers& headers, std::string_view name) {
  std::vector<std::string> values;
  for (const auto& [field, value] : headers.lines()) {
    if (!equals_ignore_case(field, "cookie")) {
      continue;
    }
    for (const auto part : split(value, ';')) {
      const auto cookie = trim(part);
      const auto equals = cookie.find('=');
      if (equals != std::string_view::npos && cookie.substr(0, equals) == name) {
        values.emplace_back(cookie.substr(equals + 1));
      }
    }
  }
  return values;
}

Result<std::string> request_head(std::string_view method, std::string_view path,
                                 const Headers& fields, std::string_view framing_lines) {
  const auto in_line = [](char c) { return c > 0x20 && c < 0x7F; };
  if (!http::is_token(method) || !path.starts_with('/') || !std::ranges::all_of(path, in_line)) {
    return fail(Code::kInvalidArgument, "the path of the request cannot be passed on");
  }
  std::string head = concat(method, " ", path, " HTTP/1.1\r\n");
  for (const auto& [name, value] : fields.lines()) {
    if (!http::is_token(name) || !http::is_field_value(value)) {
      return fail(Code::kInvalidArgument, "a header of the request cannot be passed on");
    }
    head += concat(name, ": ", value, "\r\n");
  }
  return concat(head, framing_lines, "\r\n");
}

}  // namespace atl::ingress
