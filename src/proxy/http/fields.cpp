#include "proxy/http/fields.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/strings.h"

namespace atl::proxy::http {
namespace {

constexpr std::array<std::string_view, 13> kHopFields{"connection",
                                                      "keep-alive",
                                                      "proxy-connection",
                                                      "proxy-authenticate",
                                                      "proxy-authorization",
                                                      "te",
                                                      "transfer-encoding",
                                                      "upgrade",
                                                      "http2-settings",
                                                      "host",
                                                      "content-length",
                                                      "expect",
                                                      "alt-svc"};

}  // namespace

void strip_hop_fields(atl::http::Headers& headers) {
  std::vector<std::string> named;
  for (const auto& [name, value] : headers.lines()) {
    if (equals_ignore_case(name, "connection")) {
      for (const auto piece : split(value, ',')) {
        named.push_back(to_lower(trim(piece)));
      }
    }
  }
  headers.remove_if([&](const atl::http::Headers::Line& line) {
    const auto is_it = [&](std::string_view one) {
      return one.size() == line.first.size() && equals_ignore_case(line.first, one);
    };
    return std::ranges::any_of(kHopFields, is_it) || std::ranges::any_of(named, is_it);
  });
}

std::string folded_name(std::string_view name) {
  std::string folded = to_lower(name);
  std::ranges::replace(folded, '_', '-');
  return folded;
}

void remove_folded(atl::http::Headers& headers, std::string_view name) {
  const auto folded = folded_name(name);
  headers.remove_if([&](const atl::http::Headers::Line& line) {
    return line.first.size() == folded.size() && folded_name(line.first) == folded;
  });
}

}  // namespace atl::proxy::http
