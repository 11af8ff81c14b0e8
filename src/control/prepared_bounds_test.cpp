// Prepared cells: how many of which kind, for whom, and when fewer.
#include "control/prepared_fixture.h"

namespace atl::control {
namespace {

TEST_F(PreparedTest, BoundsOfATemplateAreKept) {
  put_template("app", {"app-1"}, R"({"pool":{"minIdle":2,"maxIdle":3}})");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(claim({.template_name = "app"}));
    EXPECT_LE(idle("app"), 3U);
  }
  settle();
  EXPECT_EQ(idle("app"), 3U);
  put_template("app", {"app-1"}, R"({"pool":{"minIdle":0,"maxIdle":0}})");
  EXPECT_EQ(idle("app"), 0U);
  ASSERT_TRUE(claim({.template_name = "app"}));
  settle();
  EXPECT_EQ(idle("app"), 0U);
}

TEST_F(PreparedTest, TheOperatorCanDoWithout) {
  pool_.max_idle = 0;
  restart();
  put_template("app", {"app-1"}, R"({"pool":{"minIdle":2,"maxIdle":3}})");
  ASSERT_TRUE(claim());
  settle();
  EXPECT_EQ(node_.cells.size(), 1U);
}

TEST_F(PreparedTest, NumbersFollowDemandAndFadeWithIt) {
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(claim());
  }
  simulation_.advance_ms(1000);
  EXPECT_GE(idle(), 20U);
  simulation_.advance_ms(60'000);
  EXPECT_LE(idle(), 20U);
  EXPECT_GT(idle(), kMin);
  simulation_.advance_ms(600'000);
  EXPECT_EQ(idle(), kMin);
  EXPECT_EQ(node_.cells.size(), 30 + kMin);
  const std::size_t timers = simulation_.loop.timer_count();
  simulation_.advance_ms(100'000);
  EXPECT_EQ(simulation_.loop.timer_count(), timers) << "nothing is done when nothing happens";
}

TEST_F(PreparedTest, MemoryForAllIsABound) {
  pool_.memory_bytes = 7 * kPreparedCellBytes;
  restart();
  put_template("app", {"app-1"}, R"({"pool":{"minIdle":100,"maxIdle":100}})", "greedy");
  EXPECT_LE(idle() + idle("app"), 7U);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(claim());
  }
  settle();
  EXPECT_LE(idle() + idle("app"), 7U);
  EXPECT_GE(idle(), 4U) << "what is used comes before what was asked for in advance";
}

TEST_F(PreparedTest, NoneIsMadeWhileMemoryIsShort) {
  bool is_short = true;
  pool_.memory_is_short = options_.memory_is_short = [&is_short] { return is_short; };
  restart();
  EXPECT_EQ(idle(), 0U);
  ASSERT_TRUE(claim());
  is_short = false;
  simulation_.advance_ms(6000);
  EXPECT_EQ(idle(), kMin);
  is_short = true;
  simulation_.advance_ms(6000);
  EXPECT_EQ(idle(), 0U) << "and those that wait are given back, though nobody came";
  EXPECT_EQ(node_.cells.size(), 1U);
  is_short = false;
  simulation_.advance_ms(11'000);
  EXPECT_EQ(idle(), kMin);
}

TEST_F(PreparedTest, OddShapesDoNotEndLearning) {
  options_.max_sandboxes = 1000;
  restart();
  for (int i = 0; i < 70; ++i) {
    ASSERT_TRUE(claim({.resources = {.memory = concat(3000 + i, "Mi")}}));
  }
  put_template("app", {"app-1"});
  ASSERT_TRUE(claim({.template_name = "app"}));
  settle();
  refuse("create");
  const auto second = claim({.template_name = "app"});
  EXPECT_TRUE(second) << second.error().message;
}

TEST_F(PreparedTest, OneTeamLeavesRoomForOthers) {
  pool_.memory_bytes = 40 * kPreparedCellBytes;
  restart();
  for (int i = 0; i < 80; ++i) {
    put_template(concat("greedy-", i), {concat("greedy-", i)},
                 R"({"pool":{"minIdle":100,"maxIdle":100}})", "greedy");
  }
  simulation_.advance_ms(2000);
  EXPECT_EQ(idle(), kMin);
  EXPECT_LE(node_.cells.size(), 20 + kMin);
  put_template("app", {"app-1"}, R"({"pool":{"minIdle":3,"maxIdle":3}})");
  EXPECT_EQ(idle("app"), 3U);
}

TEST_F(PreparedTest, AMinimumIsForIdsOfTheFormThatIsAskedFor) {
  ASSERT_TRUE(claim());
  ASSERT_TRUE(claim({.id_style = IdStyle::kPlain}));
  simulation_.advance_ms(1'000'000);  // the demand is forgotten, the minimum stays
  EXPECT_EQ(idle(), kMin);
  refuse("create");
  for (const IdStyle style : {IdStyle::kPlain, IdStyle::kReadable}) {
    const auto claimed = claim({.id_style = style});
    EXPECT_TRUE(claimed) << claimed.error().message;
  }
}

}  // namespace
}  // namespace atl::control
