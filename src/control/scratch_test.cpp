#include "control/scratch.h"

#include "control/fixture.h"

namespace atl::control {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

Task<> nap(Duration duration) {
  co_return co_await sleep_for(duration);
}

class ScratchTest : public testing::Test {
 protected:
  Scratch::Space space_{.total_bytes = 1000 * kGiB, .free_bytes = 500 * kGiB};
  Scratch scratch_{[this]() -> Result<Scratch::Space> { return space_; }};
};

TEST_F(ScratchTest, ATeamHasAShare) {
  Scratch::Lease first{scratch_, "one"};
  ASSERT_TRUE(first.hold(kMaxTeamScratchBytes));
  EXPECT_TRUE(first.hold(5)) << "it has that already";
  Scratch::Lease second{scratch_, "one"};
  const auto refused = second.hold(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().reason, "no_space");
  Scratch::Lease other{scratch_, "other"};
  EXPECT_TRUE(other.hold(kGiB));
}

TEST_F(ScratchTest, AllTogetherHaveABudget) {
  std::vector<std::unique_ptr<Scratch::Lease>> leases;
  for (const char* team : {"a", "b", "c", "d"}) {
    leases.push_back(std::make_unique<Scratch::Lease>(scratch_, team));
    ASSERT_TRUE(leases.back()->hold(kMaxTeamScratchBytes));
  }
  Scratch::Lease late{scratch_, "e"};
  EXPECT_FALSE(late.hold(1));
  leases.pop_back();
  EXPECT_TRUE(late.hold(1)) << "what is done gives its room back";
}

TEST_F(ScratchTest, TheReserveIsNobodys) {
  Scratch::Lease lease{scratch_, "one"};
  space_.free_bytes = kMaxScratchReserveBytes + kGiB;
  EXPECT_TRUE(scratch_.check("one", kGiB));
  EXPECT_EQ(lease.hold(kGiB + 1).error().reason, "no_space");
  EXPECT_TRUE(lease.hold(kGiB));
  space_.free_bytes = kMaxScratchReserveBytes - 1;
  EXPECT_FALSE(scratch_.check("one", 0));
}

TEST_F(ScratchTest, WorkThatNobodyCountsEndsAtTheReserve) {
  Simulation simulation;
  const auto slept = simulation.run(scratch_.while_room(nap(std::chrono::seconds{5})));
  EXPECT_TRUE(slept);
  Scope working{simulation.loop};
  std::optional<Result<>> done;
  working.spawn("work",
                Simulation::store_result(scratch_.while_room(nap(std::chrono::hours{1})), done));
  simulation.advance_ms(3000);
  EXPECT_FALSE(done);
  space_.free_bytes = 0;
  simulation.advance_ms(3000);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->error().reason, "no_space");
  EXPECT_TRUE(simulation.run(working.join()));
}

TEST(Scratch, LooksAtTheFileSystem) {
  TemporaryDirectory directory;
  EXPECT_FALSE(Scratch{directory.path()}.check("one", 1ULL << 60));
  EXPECT_FALSE(Scratch{directory.path() + "/none"}.check("one", 0));
}

}  // namespace
}  // namespace atl::control
