#include "proxy/dns/tunnel_guard.h"

namespace atl::proxy::dns {

std::string_view parent_domain(std::string_view name) {
  const auto last = name.rfind('.');
  if (last == std::string_view::npos || last == 0) {
    return name;
  }
  const auto before = name.rfind('.', last - 1);
  return before == std::string_view::npos ? name : name.substr(before + 1);
}

std::string_view TunnelGuard::refusal(std::string_view name, Instant now) {
  if (name.size() > kMaxAskedNameBytes) {
    return "the name is too long to be one of a host";
  }
  const std::string_view domain = parent_domain(name);
  if (!domains_.contains(domain) && domains_.size() >= kMaxDomains) {
    // All begin anew, each with a whole budget; what they may say together stays the sandbox's.
    domains_.clear();
  }
  auto found = domains_.find(domain);
  if (found == domains_.end()) {
    found = domains_.emplace(domain, TokenBucket{kDomainBytesPerSecond, kDomainBurstBytes}).first;
  }
  if (found->second.available(now) <= 0 || all_.available(now) <= 0) {
    return "too much is said in the names that are asked for, as a tunnel would";
  }
  found->second.take(static_cast<std::int64_t>(name.size() - domain.size()));
  all_.take(static_cast<std::int64_t>(name.size()));
  return {};
}

}  // namespace atl::proxy::dns
