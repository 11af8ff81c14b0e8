#include "proxy/rate.h"

namespace atl::proxy {
namespace {
constexpr double kWorthwhile = 0.02;  // of a second
}

void TokenBucket::set_rate(std::uint64_t per_second, std::uint64_t burst) {
  const bool begins = rate_ == 0;
  rate_ = per_second;
  burst_ = static_cast<double>(burst == 0 ? per_second : burst);
  tokens_ = begins ? burst_ : std::min(tokens_, burst_);
}

void TokenBucket::refill(Instant now) {
  if (began_) {
    const double seconds = std::chrono::duration<double>(now - filled_at_).count();
    tokens_ = std::min(burst_, tokens_ + seconds * static_cast<double>(rate_));
  }
  began_ = true;
  filled_at_ = now;
}

std::int64_t TokenBucket::available(Instant now) {
  if (rate_ == 0) {
    return kNoLimit;
  }
  refill(now);
  return static_cast<std::int64_t>(tokens_);
}

Duration TokenBucket::until_available(Instant now) {
  if (rate_ == 0) {
    return Duration::zero();
  }
  refill(now);
  const double rate = static_cast<double>(rate_);
  const double wanted = std::min(burst_, std::max(1.0, rate * kWorthwhile));
  const double seconds = std::max(0.0, (wanted - tokens_) / rate);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)) +
         std::chrono::milliseconds{1};
}

}  // namespace atl::proxy
