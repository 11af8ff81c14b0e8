// Buckets of tokens, one per route: full at the beginning, refilled as time passes. Loop thread
// only.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/loop.h"
#include "control/service.h"

namespace atl::ingress {

class RateLimits {
 public:
  // Takes one token; else says how long until there is one.
  std::chrono::milliseconds take(const std::string& route, const control::RouteRate& rate,
                                 Instant now);

 private:
  static constexpr std::size_t kMaxBuckets = 10'000;
  struct Bucket {
    double tokens = 0;
    Instant filled_at;
    control::RouteRate rate;
  };
  static void fill(Bucket& bucket, Instant now);
  void forget_full(Instant now);
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace atl::ingress
