// Pausing and resuming, one transition each.
#include "control/memory_pressure.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

using Restored = ResumeAnswer::Restored;

class PauseTest : public SandboxesTest {
 protected:
  Result<PauseAnswer> pause(const std::string& id, PauseMemory memory = PauseMemory::kKeep) {
    return simulation_.run(sandboxes_->pause(kTeam, id, memory));
  }
  Result<ResumeAnswer> resume(const std::string& id) {
    return simulation_.run(sandboxes_->resume(kTeam, id));
  }
};

TEST_F(PauseTest, ProcessesStandStillAndGoOn) {
  const std::string id = claim()->id;
  const auto paused = pause(id);
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_EQ(paused->sandbox.status, SandboxStatus::kPaused);
  EXPECT_EQ(paused->memory, PauseMemory::kKeep);
  EXPECT_TRUE(node_.cells.at(id).frozen);
  EXPECT_EQ(store_->find_sandbox(id)->status, SandboxStatus::kPaused);
  const auto again = pause(id);
  ASSERT_TRUE(again) << "idempotent";

  const auto resumed = resume(id);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->restored, Restored::kMemory);
  EXPECT_EQ(resumed->sandbox.generation, 2);
  EXPECT_FALSE(node_.cells.at(id).frozen);
  EXPECT_EQ(node_.creates, 1U) << "the same cell";
  EXPECT_EQ(resume(id)->restored, Restored::kNothing);
}

TEST_F(PauseTest, WithoutMemoryOnlyTheDiskStays) {
  const std::string id = claim()->id;
  const auto paused = pause(id, PauseMemory::kDrop);
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->memory, PauseMemory::kDrop);
  EXPECT_FALSE(node_.cells.at(id).running);
  EXPECT_TRUE(node_.cells.at(id).upper);
  const auto resumed = resume(id);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->restored, Restored::kFilesystem);
  EXPECT_FALSE(resumed->reason.empty());
  EXPECT_TRUE(node_.requests.at(id).existing_upper);
  EXPECT_EQ(resumed->sandbox.generation, 2);
}

TEST_F(PauseTest, MemoryGoesToDiskAndComesBack) {
  const std::string id = claim()->id;
  const auto paused = pause(id, PauseMemory::kDump);
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_EQ(paused->memory, PauseMemory::kDump);
  EXPECT_EQ(paused->reason, "");
  EXPECT_FALSE(node_.cells.at(id).running);
  EXPECT_EQ(store_->find_sandbox(id)->status, SandboxStatus::kPaused);
  EXPECT_EQ(pause(id)->memory, PauseMemory::kDump) << "it stays there";
  const auto resumed = resume(id);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->restored, Restored::kMemory);
  EXPECT_EQ(resumed->reason, "");
  EXPECT_EQ(resumed->sandbox.generation, 2);
}

TEST_F(PauseTest, WhatCannotBeDumpedStaysFrozenAndSaysWhy) {
  const std::string id = claim()->id;
  node_.undumpable = "it is watched";
  const auto paused = pause(id, PauseMemory::kDump);
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_EQ(paused->memory, PauseMemory::kKeep);
  EXPECT_EQ(paused->reason, "it is watched");
  EXPECT_TRUE(node_.cells.at(id).frozen);
  EXPECT_EQ(resume(id)->restored, Restored::kMemory);
}

TEST_F(PauseTest, DumpedMemoryCanBeDropped) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id, PauseMemory::kDump));
  EXPECT_EQ(pause(id, PauseMemory::kDrop)->memory, PauseMemory::kDrop);
  EXPECT_FALSE(node_.cells.at(id).dumped);
  EXPECT_EQ(resume(id)->restored, Restored::kFilesystem);
}

TEST(MemoryPressureTest, ShortIsLessThanATenth) {
  EXPECT_TRUE(memory_is_short("MemTotal:  1000 kB\nMemFree: 900 kB\nMemAvailable:  99 kB\n"));
  EXPECT_FALSE(memory_is_short("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  101 kB\n"));
}

TEST_F(PauseTest, AFrozenOneCanGiveItsMemoryBackLater) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id));
  ASSERT_TRUE(pause(id, PauseMemory::kDrop));
  EXPECT_FALSE(node_.cells.at(id).running);
  EXPECT_EQ(resume(id)->restored, Restored::kFilesystem);
}

TEST_F(PauseTest, AHostWithoutAFreezerKeepsTheDisk) {
  node_.has_freezer = false;
  const std::string id = claim()->id;
  const auto paused = pause(id);
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_EQ(paused->memory, PauseMemory::kDrop);
  EXPECT_EQ(node_.synced, 1U) << "acknowledged is on disk";
  EXPECT_EQ(resume(id)->restored, Restored::kFilesystem);
}

TEST_F(PauseTest, UseWakesItUpOnceUnlessItMustNot) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id));
  ASSERT_TRUE(simulation_.run(sandboxes_->running(kTeam, id)));
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_EQ(sandboxes_->get(kTeam, id)->generation, 2);

  const std::string asleep = claim({.auto_resume = false})->id;
  ASSERT_TRUE(pause(asleep));
  const auto refused = simulation_.run(sandboxes_->running(kTeam, asleep));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(status(asleep), SandboxStatus::kPaused);
}

TEST_F(PauseTest, ManyWakersMakeOneResume) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id, PauseMemory::kDrop));
  node_.latency = [] { return std::chrono::milliseconds{20}; };
  int woken = 0;
  struct Waker {
    static Task<> wake(Sandboxes& sandboxes, std::string id, int& woken) {
      CO_TRY_DO(co_await sandboxes.running(kTeam, std::move(id)));
      ++woken;
      co_return ok();
    }
  };
  for (int i = 0; i < 10; ++i) {
    scope_->spawn("wake", Waker::wake(*sandboxes_, id, woken));
  }
  simulation_.advance_ms(1'000);
  EXPECT_EQ(woken, 10);
  EXPECT_EQ(node_.creates, 2U);
  EXPECT_EQ(sandboxes_->get(kTeam, id)->generation, 2);
}

TEST_F(PauseTest, ATtlBeginsAgainWithAResume) {
  const std::string id = claim({.ttl_seconds = 10})->id;
  simulation_.advance_ms(10'100);
  ASSERT_EQ(status(id), SandboxStatus::kPaused);
  const auto resumed = resume(id);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->sandbox.expires_at, simulation_.clock.now() + 10'000);
  EXPECT_EQ(store_->find_sandbox(id)->expires_at, resumed->sandbox.expires_at);
  simulation_.advance_ms(9'000);
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  simulation_.advance_ms(1'100);
  EXPECT_EQ(status(id), SandboxStatus::kPaused);
}

TEST_F(PauseTest, ADeathInThePauseCostsTheMemoryNotTheSandbox) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id));
  node_.kill(id);
  simulation_.advance_ms(100);
  EXPECT_EQ(status(id), SandboxStatus::kPaused);
  const auto resumed = resume(id);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->restored, Restored::kFilesystem);
  EXPECT_NE(resumed->reason.find("gone"), std::string::npos) << resumed->reason;
}

TEST_F(PauseTest, ARestartOfTheServerKeepsFrozenOnesFrozen) {
  const std::string id = claim()->id;
  const std::string half = claim()->id;
  ASSERT_TRUE(pause(id));
  node_.cells.at(half).frozen = true;  // killed after the freeze, before the row
  close();
  open();
  EXPECT_TRUE(node_.cells.at(id).frozen);
  EXPECT_EQ(status(id), SandboxStatus::kPaused);
  EXPECT_FALSE(node_.cells.at(half).frozen) << "nobody was promised that pause";
  EXPECT_EQ(status(half), SandboxStatus::kRunning);
  EXPECT_EQ(resume(id)->restored, Restored::kMemory);
}

TEST_F(PauseTest, ASlowNodeCostsNoMemory) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id));
  node_.fault = [](std::string_view operation) {
    return operation == "thaw" ? FakeNode::Fault::kUnreached : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(resume(id));
  EXPECT_TRUE(node_.cells.at(id).running && node_.cells.at(id).frozen);
  node_.fault = nullptr;
  simulation_.advance_ms(20'000);
  EXPECT_FALSE(node_.cells.at(id).frozen) << "it is settled in the background";
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_EQ(node_.creates, 1U) << "the same cell";
}

TEST_F(PauseTest, APauseWhoseAnswerGotLostIsTakenBack) {
  const std::string id = claim()->id;
  node_.fault = [](std::string_view operation) {
    return operation == "freeze" ? FakeNode::Fault::kAnswerLost : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(pause(id));
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  EXPECT_FALSE(node_.cells.at(id).frozen);
}

TEST_F(PauseTest, LimitsReachAFrozenCell) {
  const std::string id = claim()->id;
  ASSERT_TRUE(pause(id));
  SandboxUpdate change;
  change.resources.memory = "1Gi";
  ASSERT_TRUE(simulation_.run(sandboxes_->update(kTeam, id, std::move(change))));
  EXPECT_EQ(node_.requests.at(id).limits.memory_bytes, 1ULL << 30);
}

TEST_F(PauseTest, WhatCannotBePausedSaysSo) {
  EXPECT_EQ(pause("rs-none").error().code, Code::kNotFound);
  EXPECT_EQ(resume("rs-none").error().code, Code::kNotFound);
  const std::string id = claim()->id;
  node_.fault = [](std::string_view operation) {
    return operation == "freeze" ? FakeNode::Fault::kRefused : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(pause(id));
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
  node_.fault = nullptr;
  EXPECT_TRUE(pause(id));
  EXPECT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id))) << "a paused one can go";
  EXPECT_FALSE(node_.cells.contains(id));
}

TEST_F(PauseTest, AFailedOneComesBackFromItsDisk) {
  const std::string id = claim()->id;
  for (int i = 0; i < 4; ++i) {
    node_.kill(id);
    simulation_.advance_ms(100);
  }
  ASSERT_EQ(status(id), SandboxStatus::kFailed);
  const auto resumed = resume(id);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->restored, Restored::kFilesystem);
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
}

TEST_F(SandboxesTest, WhoeverIsToldOfStartsIsToldOfAThaw) {
  int told = 0;
  sandboxes_->on_started([&told](const Sandbox&) { ++told; });
  const std::string id = claim()->id;
  EXPECT_EQ(told, 1);
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, id, PauseMemory::kKeep)));
  ASSERT_TRUE(simulation_.run(sandboxes_->resume(kTeam, id)));
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace atl::control
