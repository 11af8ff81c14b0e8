// Lifetimes to the second, and what a clock that is set does to them.
#include "control/limits.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

constexpr std::int64_t kHourMs = std::int64_t{3600} * 1000;

class ClockTest : public SandboxesTest {
 protected:
  bool gone(const std::string& id) { return !sandboxes_->get(kTeam, id); }
  // Somebody sets the clock of the host; no time passes.
  void set_clock(std::int64_t by_ms) { simulation_.clock.advance_ms(by_ms); }
};

TEST_F(ClockTest, EveryLifetimeIsToTheSecond) {
  const std::string soft = claim({.ttl_seconds = 10})->id;
  const std::string hard = claim({.hard_ttl_seconds = 10})->id;
  const std::string idle = claim({.idle_ttl_seconds = 10})->id;
  simulation_.advance_ms(9'900);
  EXPECT_EQ(status(soft), SandboxStatus::kRunning);
  EXPECT_EQ(status(idle), SandboxStatus::kRunning);
  EXPECT_FALSE(gone(hard));
  simulation_.advance_ms(200);
  EXPECT_EQ(status(soft), SandboxStatus::kPaused);
  EXPECT_EQ(status(idle), SandboxStatus::kPaused);
  EXPECT_TRUE(gone(hard));
}

TEST_F(ClockTest, AResumeBeginsTheTtlAgainAndNotTheLifetime) {
  const std::string id = claim({.ttl_seconds = 10, .hard_ttl_seconds = 25})->id;
  simulation_.advance_ms(10'100);
  ASSERT_EQ(status(id), SandboxStatus::kPaused);
  simulation_.advance_ms(5'000);
  ASSERT_TRUE(simulation_.run(sandboxes_->resume(kTeam, id)));
  EXPECT_EQ(sandboxes_->get(kTeam, id)->expires_at, simulation_.clock.now() + 10'000)
      << "from the moment it went on";
  simulation_.advance_ms(9'000);
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  simulation_.advance_ms(2'000);
  EXPECT_TRUE(gone(id)) << "its lifetime went on while it stood still";
}

TEST_F(ClockTest, AClockThatIsSetForwardEndsNobodysTime) {
  const std::string soft = claim({.ttl_seconds = 60})->id;
  const std::string hard = claim({.hard_ttl_seconds = 60})->id;
  const std::string idle = claim({.idle_ttl_seconds = 60})->id;
  simulation_.advance_ms(20'000);
  set_clock(kHourMs);
  simulation_.advance_ms(39'000);
  EXPECT_EQ(status(soft), SandboxStatus::kRunning);
  EXPECT_EQ(status(idle), SandboxStatus::kRunning);
  EXPECT_FALSE(gone(hard));
  simulation_.advance_ms(2'000);
  EXPECT_EQ(status(soft), SandboxStatus::kPaused);
  EXPECT_EQ(status(idle), SandboxStatus::kPaused);
  EXPECT_TRUE(gone(hard));
}

TEST_F(ClockTest, AClockThatIsSetBackGivesNobodyMoreTime) {
  const std::string soft = claim({.ttl_seconds = 60})->id;
  const std::string hard = claim({.hard_ttl_seconds = 60})->id;
  const std::string idle = claim({.idle_ttl_seconds = 60})->id;
  simulation_.advance_ms(20'000);
  set_clock(-kHourMs);
  simulation_.advance_ms(39'000);
  EXPECT_EQ(status(soft), SandboxStatus::kRunning);
  EXPECT_EQ(status(idle), SandboxStatus::kRunning);
  EXPECT_FALSE(gone(hard));
  simulation_.advance_ms(2'000);
  EXPECT_EQ(status(soft), SandboxStatus::kPaused);
  EXPECT_EQ(status(idle), SandboxStatus::kPaused);
  EXPECT_TRUE(gone(hard));
}

TEST_F(ClockTest, MovedDeadlinesAreInTheStoreAndNewOnesAreNotMoved) {
  const std::string before = claim({.hard_ttl_seconds = 100})->id;
  set_clock(kHourMs);
  // The first to notice is the claim itself.
  const auto after = claim({.hard_ttl_seconds = 100});
  simulation_.advance_ms(1'000);
  EXPECT_EQ(store_->find_sandbox(after->id)->hard_expires_at, after->hard_expires_at);
  const auto moved = store_->find_sandbox(before)->hard_expires_at;
  ASSERT_TRUE(moved);
  EXPECT_GT(*moved, simulation_.clock.now() + 90'000);
  close();
  open();
  simulation_.advance_ms(50'000);
  EXPECT_FALSE(gone(before));
  simulation_.advance_ms(60'000);
  EXPECT_TRUE(gone(before));
  EXPECT_TRUE(gone(after->id));
}

}  // namespace
}  // namespace atl::control
