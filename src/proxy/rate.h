// Token buckets: how much may pass now, and how long to wait for more.
//
// A bucket may be overdrawn by what one turn moves, so nobody needs to know beforehand how much a
// read will give. A rate of 0 has no limit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/loop.h"

namespace atl::proxy {

class TokenBucket {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  // A burst of a second's worth, unless it says otherwise.
  explicit TokenBucket(std::uint64_t per_second = 0, std::uint64_t burst = 0) {
    set_rate(per_second, burst);
  }
  void set_rate(std::uint64_t per_second, std::uint64_t burst = 0);
  // What may be taken now; not above zero when nothing may.
  std::int64_t available(Instant now);
  void take(std::int64_t amount) { tokens_ -= rate_ == 0 ? 0 : static_cast<double>(amount); }
  // Until something worth the while is there.
  Duration until_available(Instant now);

 private:
  void refill(Instant now);
  std::uint64_t rate_ = 0;
  double burst_ = 0;
  double tokens_ = 0;
  Instant filled_at_{};
  bool began_ = false;
};

}  // namespace atl::proxy
