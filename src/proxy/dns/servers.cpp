#include "proxy/dns/servers.h"

#include "base/fd.h"
#include "base/strings.h"

namespace atl::proxy::dns {
namespace {

constexpr std::chrono::seconds kReadAgainAfter{5};
constexpr std::size_t kMaxFileBytes = 64 << 10;

}  // namespace

std::vector<Endpoint> read_resolv_conf(std::string_view text) {
  std::vector<Endpoint> servers;
  for (const auto line : split(text, '\n')) {
    constexpr std::string_view kWord = "nameserver";
    const auto trimmed = trim(line);
    if (!trimmed.starts_with(kWord) || servers.size() >= kMaxServers) {
      continue;
    }
    if (const auto address = egress::Address::parse(trim(trimmed.substr(kWord.size())))) {
      servers.push_back({*address, kDnsPort});
    }
  }
  return servers;
}

const std::vector<Endpoint>& Servers::list(Instant now) {
  if (!given_.empty()) {
    return given_;
  }
  if (!read_ || now >= read_again_at_) {
    read_ = true;
    read_again_at_ = now + kReadAgainAfter;
    const auto text = read_file(path_, kMaxFileBytes);
    found_ = text ? read_resolv_conf(*text) : std::vector<Endpoint>{};
  }
  return found_;
}

}  // namespace atl::proxy::dns
