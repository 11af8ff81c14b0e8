#include "proxy/allowance.h"

namespace atl::proxy {

void Allowance::set_limits(const egress::TrafficLimits& limits) {
  most_connections = limits.connections;
  out.set_rate(limits.bytes_per_second_out);
  in.set_rate(limits.bytes_per_second_in);
}

AllowancePtr Teams::find(const std::string& team_id) {
  std::erase_if(teams_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = teams_[team_id];
  AllowancePtr allowance = known.lock();
  if (!allowance) {
    allowance = std::make_shared<Allowance>();
    known = allowance;
  }
  return allowance;
}

std::size_t Meter::allowed(Direction direction, std::size_t most) {
  const Instant now = loop_.now();
  const auto one = [&](Allowance& allowance) {
    return (direction == Direction::kOut ? allowance.out : allowance.in).available(now);
  };
  const std::int64_t least = std::min(one(*sandbox_), one(*team_));
  return least <= 0 ? 0 : std::min(most, static_cast<std::size_t>(least));
}

Duration Meter::wait_time(Direction direction) {
  const Instant now = loop_.now();
  const auto one = [&](Allowance& allowance) {
    return (direction == Direction::kOut ? allowance.out : allowance.in).until_available(now);
  };
  return std::max(one(*sandbox_), one(*team_));
}

void Meter::moved(Direction direction, std::size_t bytes) {
  const auto amount = static_cast<std::int64_t>(bytes);
  const bool outward = direction == Direction::kOut;
  (outward ? sandbox_->out : sandbox_->in).take(amount);
  (outward ? team_->out : team_->in).take(amount);
  (outward ? record_.bytes_out : record_.bytes_in) += bytes;
  active_at_ = loop_.now();
}

}  // namespace atl::proxy
