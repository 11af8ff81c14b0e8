// The limits of one HTTP/2 connection, in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/loop.h"

namespace atl::http {

inline constexpr std::uint32_t kMaxHttp2Streams = 256;
// Request bodies that no handler has read yet: per request, and per connection. This is all the
// memory a client can make the server hold for bodies.
inline constexpr std::int32_t kHttp2StreamWindowBytes = 256 * 1024;
inline constexpr std::int32_t kHttp2ConnectionWindowBytes = 2 * 1024 * 1024;

// Lets `burst` events pass at once and `per_second` in the long run.
class TokenBucket {
 public:
  TokenBucket(double burst, double per_second)
      : burst_(burst), per_second_(per_second), tokens_(burst) {}

  bool take(Instant now) {
    const std::chrono::duration<double> passed = now - last_;
    last_ = now;
    tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
    if (tokens_ < 1) {
      return false;
    }
    tokens_ -= 1;
    return true;
  }

 private:
  const double burst_;
  const double per_second_;
  double tokens_;
  Instant last_{};
};

}  // namespace atl::http
