#include "control/public_names.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::string_view kPathPrefix = "/s/";

bool is_id(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kMaxSandboxIdBytes && std::ranges::all_of(text, good);
}

// Decimal in its one form: "080" is another text for 80, and two texts for one thing are a trap.
std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number < 1 || *number > 65'535 || text.size() > 5 || text.front() == '0') {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(*number);
}

std::optional<PublicTarget> parse_label(std::string_view label) {
  constexpr std::string_view kMark = "--p";
  if (const auto mark = label.rfind(kMark); mark != std::string_view::npos) {
    const auto port = parse_port(label.substr(mark + kMark.size()));
    if (port && is_id(label.substr(0, mark))) {
      return PublicTarget{std::string{label.substr(0, mark)}, *port, {}};
    }
  }
  const auto dash = label.find('-');
  if (dash == std::string_view::npos || dash == 0) {
    return std::nullopt;
  }
  const auto port = parse_port(label.substr(0, dash));
  if (!port || !is_id(label.substr(dash + 1))) {
    return std::nullopt;
  }
  return PublicTarget{std::string{label.substr(dash + 1)}, *port, {}};
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    return host.substr(0, host.find(']') + 1);
  }
  return host.substr(0, host.find(':'));
}

// Nothing: another name than one below the domain, or the server's own.
std::optional<std::string> label_below(const PublicNames& names, std::string_view host) {
  std::string name = to_lower(without_port(host));
  if (name.ends_with('.')) {
    name.pop_back();
  }
  const std::string suffix = concat(".", names.domain);
  if (!names.has_own_hosts() || !name.ends_with(suffix) || name == without_port(names.server)) {
    return std::nullopt;
  }
  return name.substr(0, name.size() - suffix.size());
}

bool is_domain(std::string_view text) {
  const auto labels = split(text, '.');
  return text.size() <= 200 && std::ranges::all_of(labels, [](std::string_view label) {
           return is_id(label) && label.front() != '-' && label.back() != '-';
         });
}

}  // namespace

std::string PublicNames::origin(std::string_view sandbox_id, std::uint16_t port) const {
  if (has_own_hosts()) {
    return concat(scheme, "://", sandbox_id, "--p", port, ".", domain, port_suffix);
  }
  return concat(scheme, "://", server, kPathPrefix, sandbox_id, "/", port);
}

Result<PublicNames> make_public_names(std::string_view domain, std::string_view public_url,
                                      std::string_view listen_host, std::uint16_t listen_port,
                                      bool tls) {
  PublicNames names;
  names.domain = to_lower(domain);
  if (!names.domain.empty() && !is_domain(names.domain)) {
    return fail(Code::kInvalidArgument,
                "--domain is a host name below which services get theirs, like apps.example.com");
  }
  if (public_url.empty()) {
    names.scheme = tls ? "https" : "http";
    const bool any = listen_host == "0.0.0.0" || listen_host == "::";
    const bool v6 = listen_host.contains(':');
    const std::string host = any  ? "127.0.0.1"
                             : v6 ? concat("[", listen_host, "]")
                                  : std::string{listen_host};
    names.port_suffix = listen_port == (tls ? 443 : 80) ? "" : concat(":", listen_port);
    names.server = concat(host, names.port_suffix);
    return names;
  }
  const auto scheme_end = public_url.find("://");
  names.scheme = scheme_end == std::string_view::npos ? "" : public_url.substr(0, scheme_end);
  auto rest = scheme_end == std::string_view::npos ? "" : public_url.substr(scheme_end + 3);
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  const auto host = without_port(rest);
  const auto port = rest.substr(std::min(host.size(), rest.size()));
  if ((names.scheme != "http" && names.scheme != "https") || host.empty() ||
      rest.find_first_of("/?#@ ") != std::string_view::npos ||
      (!port.empty() && !parse_port(port.substr(1)))) {
    return fail(Code::kInvalidArgument,
                "--public-url is how clients reach this server, like https://api.example.com");
  }
  names.server = to_lower(rest);
  names.port_suffix = port;
  return names;
}

std::string find_label(const PublicNames& names, std::string_view host) {
  return label_below(names, host).value_or("");
}

std::optional<PublicTarget> find_target(const PublicNames& names, std::string_view host,
                                        std::string_view path) {
  if (names.has_own_hosts()) {
    const auto label = label_below(names, host);
    if (!label) {
      return std::nullopt;  // no service shares the API's origin
    }
    const auto target = parse_label(*label);
    return target ? target : PublicTarget{};
  }
  if (!path.starts_with(kPathPrefix)) {
    return std::nullopt;
  }
  const auto rest = path.substr(kPathPrefix.size());
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos) {
    return PublicTarget{};
  }
  const auto id = rest.substr(0, slash);
  const auto tail = rest.substr(slash + 1);
  const auto port_text = tail.substr(0, tail.find('/'));
  const auto port = parse_port(port_text);
  if (!is_id(id) || !port) {
    return PublicTarget{};
  }
  return PublicTarget{std::string{id}, *port, concat(kPathPrefix, id, "/", port_text)};
}

}  // namespace atl::control
