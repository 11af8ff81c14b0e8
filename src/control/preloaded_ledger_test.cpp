#include "control/preloaded_ledger.h"

#include <gtest/gtest.h>

namespace atl::control {
namespace {

TEST(PreloadLedgerTest, AnImageCountsUntilTheLastSandboxThatGotItIsGone) {
  PreloadLedger ledger{100, 50};
  std::set<std::string> alive{"a", "b"};
  const auto sweep = [&] {
    ledger.sweep([&](const std::string& id) { return alive.contains(id); });
  };
  auto image = std::make_shared<int>(1);
  ledger.add(image, 40, "team");
  EXPECT_FALSE(ledger.in_use(image.get()));
  ledger.note_user(image.get(), "a");
  ledger.note_user(image.get(), "b");
  EXPECT_TRUE(ledger.in_use(image.get()));
  image.reset();
  sweep();
  EXPECT_FALSE(ledger.has_room("team", 40)) << "dropped, but its memory is still there";
  EXPECT_TRUE(ledger.has_room("other", 40));
  alive.erase("a");
  sweep();
  EXPECT_FALSE(ledger.has_room("team", 40));
  alive.erase("b");
  sweep();
  EXPECT_TRUE(ledger.has_room("team", 40));
}

TEST(PreloadLedgerTest, TeamsHaveTheirPartAndAllTheWhole) {
  PreloadLedger ledger{100, 50};
  const auto one = std::make_shared<int>(1);
  const auto two = std::make_shared<int>(2);
  ledger.add(one, 50, "one");
  EXPECT_FALSE(ledger.has_room("one", 1));
  EXPECT_TRUE(ledger.has_room("", 50)) << "what is everybody's has no part of its own";
  ledger.add(two, 45, "");
  EXPECT_FALSE(ledger.has_room("two", 6));
  EXPECT_TRUE(ledger.team_has_room("two", 6));
  EXPECT_TRUE(ledger.has_room("two", 5));
}

TEST(PreloadQueueTest, EverybodysFirstAndThenTeamByTeam) {
  PreloadQueue<int> queue;
  const Instant now{Duration{std::chrono::seconds{100}}};
  for (int i = 0; i < 3; ++i) {
    queue.push(i, "greedy");
  }
  queue.push(10, "modest");
  queue.push(20, "");
  queue.push(30, "", now + std::chrono::seconds{5});
  std::vector<int> order;
  Instant next = Instant::max();
  while (const auto each = queue.pop(now, next)) {
    order.push_back(each->first);
  }
  EXPECT_EQ(order, (std::vector<int>{20, 0, 10, 1, 2}));
  EXPECT_EQ(next, now + std::chrono::seconds{5});
  queue.erase_if([](int each) { return each == 30; });
  EXPECT_FALSE(queue.pop(next, next));
}

}  // namespace
}  // namespace atl::control
