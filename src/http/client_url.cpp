// Reading the address of a server.
#include <algorithm>

#include "base/strings.h"
#include "http/client.h"

namespace atl::http {

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kSecure = "https://";
  const auto bad = [text](std::string_view why) {
    return fail(Code::kInvalidArgument,
                concat("\"", text, "\" ", why, "; use for example http://127.0.0.1:8080"));
  };
  const bool secure = text.starts_with(kSecure);
  if (!secure && !text.starts_with(kPlain)) {
    return bad("does not start with http:// or https://");
  }
  auto rest = text.substr(secure ? kSecure.size() : kPlain.size());
  const auto slash = std::min(rest.find('/'), rest.size());
  auto authority = rest.substr(0, slash);
  Url url;
  url.secure = secure;
  url.port = secure ? 443 : 80;
  url.base_path = rest.substr(slash);
  while (url.base_path.ends_with('/')) {
    url.base_path.pop_back();
  }
  const bool is_v6 = authority.starts_with('[');
  const auto host_end =
      is_v6 ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (host_end == std::string_view::npos) {
    return bad("has no end of its address");
  }
  url.host = authority.substr(is_v6 ? 1 : 0, host_end - (is_v6 ? 1 : 0));
  authority.remove_prefix(host_end + (is_v6 ? 1 : 0));
  const auto is_host_char = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == ':' || c == '_';
  };
  if (url.host.empty() || !std::ranges::all_of(url.host, is_host_char)) {
    return bad("has no valid host");
  }
  if (!authority.empty()) {
    const auto port = parse_u64(authority.substr(1));
    if (!authority.starts_with(':') || !port || *port == 0 || *port > 65535) {
      return bad("has no valid port");
    }
    url.port = static_cast<std::uint16_t>(*port);
  }
  return url;
}

}  // namespace atl::http
