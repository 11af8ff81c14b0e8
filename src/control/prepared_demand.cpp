#include "control/prepared_demand.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>
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

// By rounds.
void shrink(std::span<Wish> wishes, std::size_t room) {
  if (total_target(wishes) <= room) {
    return;
  }
  std::vector<std::size_t> wanted;
  for (Wish& wish : wishes) {
    wanted.push_back(std::exchange(wish.target, 0));
  }
  while (room > 0) {
    std::size_t open = 0;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      open += wishes[i].target < wanted[i] ? 1 : 0;
    }
    const std::size_t each = std::max<std::size_t>(1, room / open);
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      const std::size_t more = std::min({each, wanted[i] - wishes[i].target, room});
      wishes[i].target += more;
      room -= more;
    }
  }
}

// What is missing to the minima, as wishes of their own.
std::vector<Wish> missing_to_minima(std::span<const std::span<Wish>> groups) {
  std::vector<Wish> missing;
  for (const auto group : groups) {
    std::size_t least = 0;
    for (const Wish& wish : group) {
      least += wish.min_idle;
    }
    least -= std::min(least, total_target(group));
    for (const Wish& wish : group) {
      const std::size_t own = std::min(least, wish.min_idle - std::min(wish.min_idle, wish.target));
      missing.push_back({.team = wish.team, .target = own});
      least -= own;
    }
  }
  return missing;
}

// So that each team has `most` at most of what it has and what it lacks.
void shrink_teams(std::span<const Wish> has, std::span<Wish> missing, std::size_t most) {
  std::set<std::size_t> teams;
  for (const Wish& wish : has) {
    teams.insert(wish.team);
  }
  teams.erase(kNoTeam);
  for (const std::size_t team : teams) {
    std::size_t room = most;
    std::vector<Wish> own;
    for (std::size_t i = 0; i < has.size(); ++i) {
      if (has[i].team == team) {
        room -= std::min(room, has[i].target);
        own.push_back(missing[i]);
      }
    }
    shrink(own, room);
    for (std::size_t i = 0, next = 0; i < has.size(); ++i) {
      if (has[i].team == team) {
        missing[i].target = own[next++].target;
      }
    }
  }
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
  const std::size_t whole = room;
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
  std::vector<Wish> missing = missing_to_minima(groups);
  // Of the platform's, what is expected and what is kept anyway.
  std::vector<Wish> first(wishes.begin(), wishes.end());
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const bool platform = wishes[i].team == kNoTeam;
    const std::size_t expected = platform ? std::min(wishes[i].target, wishes[i].min_idle) : 0;
    first[i].target = platform ? expected + std::exchange(missing[i].target, 0) : 0;
    wishes[i].target -= expected;
  }
  shrink(first, room);
  room -= total_target(first);
  shrink(wishes, room);
  // Minima of teams get what expectation leaves: nobody keeps others waiting by asking for much in
  // advance.
  shrink_teams(wishes, missing, whole / 2);
  shrink(missing, room - total_target(wishes));
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    wishes[i].target += first[i].target + missing[i].target;
  }
}

std::size_t total_target(std::span<const Wish> wishes) {
  std::size_t sum = 0;
  for (const Wish& wish : wishes) {
    sum += wish.target;
  }
  return sum;
}

}  // namespace atl::control
