#include "io/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace atl::io {
namespace {

using namespace std::chrono_literals;

TEST(TimerQueue, FiresInOrderAndTiesInTheOrderTheyCame) {
  TimerQueue timers;
  std::string order;
  const Instant now{};
  timers.start(now + 2ms, [&] { order += 'c'; });
  timers.start(now + 1ms, [&] { order += 'a'; });
  timers.start(now + 1ms, [&] { order += 'b'; });
  timers.start(now + 3ms, [&] { order += 'd'; });
  EXPECT_EQ(now + 1ms, timers.earliest());
  timers.fire(now + 2ms);
  EXPECT_EQ("abc", order);
  timers.fire(now + 3ms);
  EXPECT_EQ("abcd", order);
  EXPECT_FALSE(timers.earliest());
}

TEST(TimerQueue, AnIdIsNeverUsedAgain) {
  TimerQueue timers;
  int fired = 0;
  const auto first = timers.start(Instant{} + 1ms, [&] { ++fired; });
  timers.cancel(first);
  const auto second = timers.start(Instant{} + 1ms, [&] { ++fired; });
  EXPECT_NE(first, second);
  timers.cancel(first);  // not the one that has its slot now
  timers.cancel(12345);
  timers.fire(Instant{} + 1ms);
  EXPECT_EQ(1, fired);
  timers.cancel(second);
}

TEST(TimerQueue, ManyThatComeAndGo) {
  TimerQueue timers;
  std::mt19937 random{7};
  std::vector<Instant> fired;
  std::vector<Instant> expected;
  std::vector<std::pair<Loop::TimerId, Instant>> running;
  for (int i = 0; i < 2000; ++i) {
    const Instant when = Instant{} + std::chrono::microseconds{random() % 500};
    running.emplace_back(timers.start(when, [&fired, when] { fired.push_back(when); }), when);
    if (random() % 3 == 0) {
      const auto victim = running.begin() + static_cast<std::ptrdiff_t>(random() % running.size());
      timers.cancel(victim->first);
      running.erase(victim);
    }
  }
  for (const auto& [id, when] : running) {
    expected.push_back(when);
  }
  std::ranges::sort(expected);
  timers.fire(Instant{} + 1s);
  EXPECT_EQ(expected, fired);
}

TEST(TimerQueue, ACallbackMayCancelTheNext) {
  TimerQueue timers;
  bool fired = false;
  const auto next = timers.start(Instant{} + 2ms, [&] { fired = true; });
  timers.start(Instant{} + 1ms, [&] { timers.cancel(next); });
  timers.fire(Instant{} + 5ms);
  EXPECT_FALSE(fired);
  EXPECT_FALSE(timers.earliest());
}

}  // namespace
}  // namespace atl::io
