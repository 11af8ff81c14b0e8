#include "proxy/http/authority.h"

#include "base/strings.h"

namespace atl::proxy::http {
namespace {

using atl::http::Refusal;

struct Parts {
  std::string_view host;
  std::optional<std::string_view> port;
};

std::optional<Parts> take_apart(std::string_view authority) {
  const auto bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos || authority.find('@') != std::string_view::npos) {
    return std::nullopt;
  }
  const auto colon = authority.find(':', bracket);
  const auto host = authority.substr(0, colon);
  if (colon == std::string_view::npos) {
    return Parts{host, std::nullopt};
  }
  return Parts{host, authority.substr(colon + 1)};
}

bool is_decided_host(const egress::Flow& flow, std::string_view host) {
  if (!flow.name.empty()) {
    return egress::normal_host_name(host) == flow.name;
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return egress::Address::parse(host) == flow.address;
}

}  // namespace

std::optional<Refusal> check_authority(const egress::Flow& flow, bool secure,
                                       RequestHead& request) {
  const std::uint16_t usual_port = secure ? 443 : 80;
  if (!request.authority.empty()) {
    const auto parts = take_apart(request.authority);
    if (!parts) {
      return Refusal{400, "the authority is not a host with an optional port"};
    }
    if (!is_decided_host(flow, parts->host)) {
      return Refusal{421, "the request is for another host than the connection"};
    }
    const auto port =
        parts->port ? parse_u64(*parts->port) : std::optional{std::uint64_t{usual_port}};
    if (port != flow.port) {
      return Refusal{421, "the request is for another port than the connection"};
    }
  }
  const bool is_v6 = flow.name.empty() && !flow.address.is_v4();
  const auto host = flow.name.empty() ? flow.address.text() : flow.name;
  request.authority = is_v6 ? concat("[", host, "]") : host;
  if (flow.port != usual_port) {
    request.authority += concat(":", flow.port);
  }
  return std::nullopt;
}

}  // namespace atl::proxy::http
