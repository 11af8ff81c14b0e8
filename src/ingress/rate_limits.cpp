#include "ingress/rate_limits.h"

#include <algorithm>
#include <cmath>

namespace atl::ingress {

void RateLimits::fill(Bucket& bucket, Instant now) {
  const double seconds = std::chrono::duration<double>(now - bucket.filled_at).count();
  bucket.tokens = std::min(
      static_cast<double>(bucket.rate.burst),
      bucket.tokens + std::max(0.0, seconds) * static_cast<double>(bucket.rate.per_second));
  bucket.filled_at = now;
}

// A full bucket is as good as none.
void RateLimits::forget_full(Instant now) {
  std::erase_if(buckets_, [now](const auto& each) {
    Bucket bucket = each.second;
    fill(bucket, now);
    return bucket.tokens >= static_cast<double>(bucket.rate.burst);
  });
}

std::chrono::milliseconds RateLimits::take(const std::string& route, const control::RouteRate& rate,
                                           Instant now) {
  if (buckets_.size() >= kMaxBuckets && !buckets_.contains(route)) {
    forget_full(now);
  }
  const Bucket full{static_cast<double>(rate.burst), now, rate};
  Bucket& bucket = buckets_.try_emplace(route, full).first->second;
  if (bucket.rate != rate) {
    bucket = full;
  }
  fill(bucket, now);
  if (bucket.tokens >= 1.0) {
    bucket.tokens -= 1.0;
    return std::chrono::milliseconds{0};
  }
  const double seconds = (1.0 - bucket.tokens) / static_cast<double>(rate.per_second);
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(seconds * 1000))};
}

}  // namespace atl::ingress
