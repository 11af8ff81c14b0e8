// Memory on disk: what takes long there keeps nobody else waiting.
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

class MemoryTest : public SandboxesTest {
 protected:
  void SetUp() override {
    options_.dump_after_seconds = 10;
    open();
  }
  Result<PauseAnswer> pause(const std::string& id, PauseMemory memory) {
    return simulation_.run(sandboxes_->pause(kTeam, id, memory));
  }
  static Task<> pause_to_disk(Sandboxes& sandboxes, std::string id) {
    CO_TRY_DO(co_await sandboxes.pause(kTeam, std::move(id), PauseMemory::kDump));
    co_return ok();
  }
  // Killed after the row said so and before the memory was back.
  void leave_half_resumed(const std::string& id) {
    const auto row = *store_->find_sandbox(id);
    ASSERT_TRUE(store_->change_sandbox(
        id, {row.status, row.generation},
        {.status = SandboxStatus::kRunning, .generation = row.generation + 1},
        {.kind = "sandbox.running", .subject = id, .team_id = kTeam}, store::Durability::kQuick));
  }
};

TEST_F(MemoryTest, AStartDoesNotWaitForMemoryThatComesBackSlowly) {
  const std::string id = claim()->id;
  const std::string other = claim()->id;
  ASSERT_TRUE(pause(id, PauseMemory::kDump));
  leave_half_resumed(id);
  close();
  node_.slow["create"] = std::chrono::seconds{200};
  const UnixMillis before = simulation_.clock.now();
  open();
  EXPECT_LT(simulation_.clock.now() - before, 1000);
  EXPECT_TRUE(sandboxes_->ready());
  EXPECT_EQ(status(id), SandboxStatus::kStarting);
  simulation_.advance_ms(1000);
  EXPECT_TRUE(simulation_.run(sandboxes_->running(kTeam, other)));
  EXPECT_LT(simulation_.clock.now() - before, 5000);
  const auto used = simulation_.run(sandboxes_->running(kTeam, id));
  ASSERT_TRUE(used) << used.error().message;
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_TRUE(node_.requests.at(id).restore_memory);
  EXPECT_EQ(node_.creates, 3U);
}

TEST_F(MemoryTest, WhatCannotBeRepairedAtAStartIsRepairedLater) {
  const std::string id = claim()->id;
  node_.lose(true);
  close();
  node_.fault = [](std::string_view operation) {
    return operation == "create" ? FakeNode::Fault::kUnreached : FakeNode::Fault::kNone;
  };
  open();
  EXPECT_TRUE(sandboxes_->ready());
  EXPECT_EQ(status(id), SandboxStatus::kStarting);
  node_.fault = nullptr;
  simulation_.advance_ms(5000);
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_TRUE(node_.cells.at(id).running);
}

TEST_F(MemoryTest, EveryUnsettledOneIsTriedUntilItWorks) {
  const std::string ids[] = {claim()->id, claim()->id, claim()->id};
  for (const auto& id : ids) {
    ASSERT_TRUE(pause(id, PauseMemory::kDrop));
  }
  node_.fault = [](std::string_view operation) {
    return operation == "create" ? FakeNode::Fault::kUnreached : FakeNode::Fault::kNone;
  };
  for (const auto& id : ids) {
    EXPECT_FALSE(simulation_.run(sandboxes_->resume(kTeam, id)));
  }
  simulation_.advance_ms(5000);
  node_.fault = nullptr;
  simulation_.advance_ms(5000);
  for (const auto& id : ids) {
    EXPECT_TRUE(node_.cells.at(id).running) << id;
    EXPECT_EQ(status(id), SandboxStatus::kRunning);
  }
}

TEST_F(MemoryTest, OneThatWasMadePausedGivesItsMemoryBackToo) {
  const std::string id = claim({.paused = true})->id;
  EXPECT_TRUE(node_.cells.at(id).running);
  simulation_.advance_ms(11'000);
  EXPECT_TRUE(node_.cells.at(id).dumped);
}

TEST_F(MemoryTest, TheHardTtlEndsOneWhoseMemoryIsOnDisk) {
  const std::string id = claim({.hard_ttl_seconds = 30})->id;
  ASSERT_TRUE(pause(id, PauseMemory::kKeep));
  simulation_.advance_ms(11'000);
  EXPECT_TRUE(node_.cells.at(id).dumped);
  EXPECT_EQ(status(id), SandboxStatus::kPaused);
  simulation_.advance_ms(20'000);
  EXPECT_FALSE(sandboxes_->get(kTeam, id));
  EXPECT_FALSE(node_.cells.contains(id));
}

TEST_F(MemoryTest, FewGoToDiskAtOnceAndAllGo) {
  node_.slow["dump"] = std::chrono::seconds{20};
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(claim()->id);
    ASSERT_TRUE(pause(ids.back(), PauseMemory::kKeep));
  }
  simulation_.advance_ms(90'000);
  EXPECT_EQ(node_.most_dumping, 2U);
  for (const auto& id : ids) {
    EXPECT_TRUE(node_.cells.at(id).dumped) << id;
  }
}

TEST_F(MemoryTest, UseWaitsForALongDump) {
  const std::string id = claim()->id;
  node_.slow["dump"] = std::chrono::seconds{120};
  scope_->spawn("pause", pause_to_disk(*sandboxes_, id));
  simulation_.advance_ms(1000);
  const auto used = simulation_.run(sandboxes_->running(kTeam, id));
  ASSERT_TRUE(used) << used.error().message;
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_EQ(node_.dumping, 0U);
}

}  // namespace
}  // namespace atl::control
