#include "control/prepared_demand.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "control/limits.h"

namespace atl::control {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// What is left of it after this time.
double faded(double value, Duration passed, Duration half_life) {
  return value * std::exp2(-seconds(passed) / seconds(half_life));
}

// All get the same part of what they want.
void shrink(std::span<Wish> wishes, std::size_t room) {
  const auto sum = std::transform_reduce(wishes.begin(), wishes.end(), std::size_t{0}, std::plus{},
                                         [](const Wish& wish) { return wish.target; });
  if (sum <= room) {
    return;
  }
  for (Wish& wish : wishes) {
    wish.target = wish.target * room / sum;
  }
}

std::size_t total(std::span<const Wish> wishes) {
  std::size_t sum = 0;
  for (const Wish& wish : wishes) {
    sum += wish.target;
  }
  return sum;
}

}  // namespace

void Demand::note(Instant now) {
  const Duration passed = now - at_;
  recent_ = faded(recent_, passed, kDemandRecent) + 1;
  peak_ = std::max(faded(peak_, passed, kDemandMemory), recent_);
  at_ = now;
}

double Demand::rate(Instant now) const {
  // A claim counts for as long as its half-life over the logarithm of two.
  return faded(peak_, now - at_, kDemandMemory) / (seconds(kDemandRecent) / std::numbers::ln2);
}

Instant Demand::falls_to(double rate, Instant now) const {
  const double current = this->rate(now);
  if (current <= rate) {
    return now;
  }
  const double wait = std::log2(current / rate) * seconds(kDemandMemory);
  return now + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait));
}

double expected_claims(double rate, Duration making) {
  return rate * (seconds(kDemandMargin) + seconds(making));
}

double rate_below(std::size_t target, Duration making) {
  return (static_cast<double>(target) - 0.5) / (seconds(kDemandMargin) + seconds(making));
}

void allot(std::span<Wish> wishes, std::size_t room) {
  std::vector<std::span<Wish>> groups;
  for (std::size_t begin = 0, end = 0; begin < wishes.size(); begin = end) {
    while (end < wishes.size() && wishes[end].group == wishes[begin].group) {
      ++end;
    }
    groups.push_back(wishes.subspan(begin, end - begin));
  }
  for (Wish& wish : wishes) {
    wish.target = std::min(static_cast<std::size_t>(std::llround(wish.expected)), wish.max_idle);
  }
  for (const auto group : groups) {
    shrink(group, group.front().max_idle);
  }
  shrink(wishes, room);
  // Minima get what expectation leaves: nobody keeps others waiting by asking for much in advance.
  std::vector<Wish> missing;
  for (const auto group : groups) {
    const std::size_t has = total(group);
    for (const Wish& wish : group) {
      missing.push_back({.target = wish.usual && wish.min_idle > has ? wish.min_idle - has : 0});
    }
  }
  shrink(missing, room - std::min(room, total(wishes)));
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    wishes[i].target += missing[i].target;
  }
}

}  // namespace atl::control
