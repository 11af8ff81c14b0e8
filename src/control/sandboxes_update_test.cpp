// Changing a sandbox that exists, and the ends of its times.
#include "control/limits.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

class UpdateTest : public SandboxesTest {
 protected:
  Result<Sandbox> update(const std::string& id, SandboxUpdate change) {
    return simulation_.run(sandboxes_->update(kTeam, id, std::move(change)));
  }
  Result<Sandbox> refresh(const std::string& id, std::int64_t seconds = 0) {
    return simulation_.run(sandboxes_->refresh(kTeam, id, seconds));
  }
  bool exists(const std::string& id) { return sandboxes_->get(kTeam, id).has_value(); }
};

TEST_F(UpdateTest, WhatIsGivenChangesLiveAndSurvivesARestartTheRestStays) {
  ClaimRequest request{.env = {{"A", "1"}, {"B", "2"}}, .labels = {{"k", "v"}}};
  request.resources = {.memory = "512Mi", .cpu = "1"};
  const std::string id = claim(std::move(request))->id;
  SandboxUpdate change{.env = StringMap{{"A", "9"}}, .auto_resume = false};
  change.resources.memory = "1Gi";
  const auto updated = update(id, std::move(change));
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_EQ(node_.requests.at(id).limits.memory_bytes, 1ULL << 30);
  EXPECT_EQ(node_.requests.at(id).limits.cpu_millis, 1000U);
  EXPECT_EQ(simulation_.run(sandboxes_->running(kTeam, id))->env, (StringMap{{"A", "9"}}));
  close();
  open();
  const auto row = sandboxes_->get(kTeam, id);
  EXPECT_EQ(row->limits.memory_bytes, 1ULL << 30);
  EXPECT_EQ(row->env, (StringMap{{"A", "9"}}));
  EXPECT_EQ(row->labels, (StringMap{{"k", "v"}}));
  EXPECT_FALSE(row->auto_resume);
  node_.kill(id);
  simulation_.advance_ms(10);
  EXPECT_EQ(node_.requests.at(id).limits.memory_bytes, 1ULL << 30) << "also the next cell has it";
}

TEST_F(UpdateTest, BadValuesChangeNothing) {
  const auto before = claim({.ttl_seconds = 10, .hard_ttl_seconds = 20});
  const std::string id = before->id;
  EXPECT_FALSE(update(id, {.resources = {.memory = "1Mi"}}));
  EXPECT_FALSE(update(id, {.ttl_seconds = 30}));
  EXPECT_FALSE(update(id, {.idle_ttl_seconds = -1}));
  EXPECT_FALSE(update(id, {.env = StringMap{{"A=B", ""}}}));
  EXPECT_FALSE(update("rs-none", {}));
  EXPECT_FALSE(simulation_.run(sandboxes_->update("other", id, {})));
  EXPECT_EQ(*sandboxes_->get(kTeam, id), *before);
}

TEST_F(UpdateTest, LessMemoryThanIsUsedIsRefused) {
  const std::string id = claim({.resources = {.memory = "1Gi"}})->id;
  node_.usages[id] = {.memory_bytes = 600ULL << 20};
  const auto refused = update(id, {.resources = {.memory = "512Mi"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "memory_in_use");
  EXPECT_EQ(sandboxes_->get(kTeam, id)->limits.memory_bytes, 1ULL << 30);
  EXPECT_TRUE(update(id, {.resources = {.memory = "768Mi"}}));
}

TEST_F(UpdateTest, ALimitTheNodeRefusesIsTakenBack) {
  const std::string id = claim({.resources = {.memory = "1Gi"}})->id;
  int calls = 0;
  node_.fault = [&calls](std::string_view operation) {
    return operation == "set_limits" && ++calls == 1 ? FakeNode::Fault::kRefused
                                                     : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(update(id, {.resources = {.memory = "2Gi"}}));
  EXPECT_EQ(store_->find_sandbox(id)->limits.memory_bytes, 1ULL << 30);
  EXPECT_EQ(node_.requests.at(id).limits.memory_bytes, 1ULL << 30);
}

TEST_F(UpdateTest, AStartAppliesWhatTheRowSays) {
  const std::string id = claim({.resources = {.memory = "1Gi"}})->id;
  close();
  node_.requests.at(id).limits.memory_bytes = 5;  // killed between row and cell
  open();
  EXPECT_EQ(node_.requests.at(id).limits.memory_bytes, 1ULL << 30);
}

TEST_F(UpdateTest, RefreshStartsBothClocksAgain) {
  const std::string id = claim({.ttl_seconds = 10, .hard_ttl_seconds = 20})->id;
  simulation_.advance_ms(8'000);
  const auto fresh = refresh(id);
  ASSERT_TRUE(fresh);
  EXPECT_EQ(fresh->expires_at, *fresh->hard_expires_at - 10'000);
  simulation_.advance_ms(9'000);
  EXPECT_TRUE(exists(id));
  ASSERT_TRUE(refresh(id, 2));
  EXPECT_FALSE(refresh(id, 21)) << "longer than the hard ttl";
  simulation_.advance_ms(1'900);
  EXPECT_TRUE(exists(id));
  simulation_.advance_ms(200);
  EXPECT_EQ(status(id), SandboxStatus::kPaused);
}

TEST_F(UpdateTest, AnUpdatedTtlCountsFromNowAndZeroTurnsItOff) {
  const std::string id = claim({.ttl_seconds = 10})->id;
  simulation_.advance_ms(5'000);
  ASSERT_TRUE(update(id, {.ttl_seconds = 20}));
  simulation_.advance_ms(19'900);
  EXPECT_TRUE(exists(id));
  ASSERT_TRUE(update(id, {.ttl_seconds = 0}));
  simulation_.advance_ms(100'000);
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
}

TEST_F(UpdateTest, IdleTimeRunsOnlyWhileNobodyUsesIt) {
  const std::string id = claim({.idle_ttl_seconds = 10})->id;
  simulation_.advance_ms(9'000);
  {
    const auto use = sandboxes_->use(kTeam, id);
  }
  simulation_.advance_ms(9'900);
  EXPECT_EQ(status(id), SandboxStatus::kRunning) << "a use starts the time again";
  {
    const auto stream = sandboxes_->use(kTeam, id);
    ASSERT_TRUE(stream);
    simulation_.advance_ms(60'000);
    EXPECT_EQ(status(id), SandboxStatus::kRunning) << "an open stream is use";
    {
      const auto second = sandboxes_->use(kTeam, id);
    }
    simulation_.advance_ms(60'000);
  }
  simulation_.advance_ms(9'900);
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  simulation_.advance_ms(200);
  EXPECT_EQ(status(id), SandboxStatus::kPaused);
}

TEST_F(UpdateTest, TheEarliestOfTheTimesEndsIt) {
  const std::string idle = claim({.hard_ttl_seconds = 100, .idle_ttl_seconds = 5})->id;
  const std::string hard = claim({.hard_ttl_seconds = 7, .idle_ttl_seconds = 50})->id;
  {
    const auto use = sandboxes_->use(kTeam, idle);
    const auto other = sandboxes_->use(kTeam, hard);
    simulation_.advance_ms(6'000);
  }
  EXPECT_TRUE(exists(idle) && exists(hard));
  simulation_.advance_ms(1'100);
  EXPECT_FALSE(exists(hard)) << "use does not stop the hard ttl";
  simulation_.advance_ms(4'000);
  EXPECT_EQ(status(idle), SandboxStatus::kPaused);
}

}  // namespace
}  // namespace atl::control
