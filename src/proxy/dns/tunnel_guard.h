// How much a sandbox may say in the names it asks for.
//
// A name that must be asked upstream carries its labels to whoever runs that domain. The labels
// below the last two are paid for from a budget of their domain, and all of them from a budget of
// the sandbox: enough for real programs, a trickle for a tunnel. Names in the cache cost nothing.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "proxy/rate.h"

namespace atl::proxy::dns {

inline constexpr std::size_t kMaxAskedNameBytes = 200;
inline constexpr std::uint64_t kDomainBytesPerSecond = 64;
inline constexpr std::uint64_t kDomainBurstBytes = 4096;
inline constexpr std::uint64_t kSandboxBytesPerSecond = 512;
inline constexpr std::uint64_t kSandboxBurstBytes = 32768;
inline constexpr std::size_t kMaxDomains = 1024;

class TunnelGuard {
 public:
  // Empty when the name may be asked; else why not.
  std::string_view refusal(std::string_view name, Instant now);

 private:
  TokenBucket all_{kSandboxBytesPerSecond, kSandboxBurstBytes};
  std::map<std::string, TokenBucket, std::less<>> domains_;
};

// "example.com" of "a.b.example.com".
std::string_view parent_domain(std::string_view name);

}  // namespace atl::proxy::dns
