// Prepared cells: taken by claims, never two owners, none left over.
#include "control/prepared_fixture.h"

namespace atl::control {
namespace {

TEST_F(PreparedTest, AClaimTakesWhatIsReadyAndAsksTheNodeNothing) {
  EXPECT_EQ(idle(), kMin);
  const auto before = cells();
  node_.fault = [](std::string_view) { return FakeNode::Fault::kUnreached; };
  const auto claimed = claim();
  ASSERT_TRUE(claimed) << claimed.error().message;
  EXPECT_TRUE(before.contains(claimed->id));
  EXPECT_TRUE(claimed->id.starts_with("rs-default-")) << claimed->id;
  EXPECT_EQ(node_.requests.at(claimed->id).hostname, claimed->id);
  EXPECT_EQ(node_.requests.at(claimed->id).limits.memory_bytes, claimed->limits.memory_bytes);
  EXPECT_EQ(store_->list_sandboxes()->size(), 1U);
  EXPECT_EQ(status(claimed->id), SandboxStatus::kRunning);
  EXPECT_EQ(simulation_.run(sandboxes_->running(kTeam, claimed->id))->guest_socket, "/nowhere");
  node_.fault = nullptr;
  EXPECT_EQ(counted("atoll_control_claims_prepared_total"), 1U);
  simulation_.advance_ms(1000);
  EXPECT_EQ(idle(), kMin) << "and another took its place";
}

TEST_F(PreparedTest, OneThatWasTakenIsASandboxLikeAnyOther) {
  const auto claimed = claim();
  ASSERT_TRUE(claimed);
  node_.kill(claimed->id);
  simulation_.advance_ms(100);
  EXPECT_EQ(sandboxes_->get(kTeam, claimed->id)->generation, 2);
  restart();
  EXPECT_EQ(status(claimed->id), SandboxStatus::kRunning);
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, claimed->id)));
  EXPECT_FALSE(node_.cells.contains(claimed->id));
}

TEST_F(PreparedTest, EmptyItIsNoErrorButACellOfItsOwn) {
  node_.latency = [] { return Duration{std::chrono::milliseconds{5}}; };
  std::vector<std::optional<Result<Sandbox>>> results(60);
  Scope scope{simulation_.loop};
  for (std::size_t i = 0; i < results.size(); ++i) {
    ClaimRequest request{.template_name = "default"};
    scope.spawn("claim",
                Simulation::store_result(sandboxes_->claim(std::move(request)), results[i]));
  }
  ASSERT_TRUE(simulation_.run(scope.join()));
  std::set<std::string> ids;
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(*results[i]) << results[i]->error().message;
    const Sandbox& row = **results[i];
    EXPECT_TRUE(ids.insert(row.id).second) << "two have " << row.id;
  }
  EXPECT_EQ(counted("atoll_control_claims_prepared_total"), kMin);
  EXPECT_EQ(counted("atoll_control_claims_unprepared_total"), results.size() - kMin);
}

TEST_F(PreparedTest, TighterLimitsAreSetOnWhatIsReady) {
  const std::size_t creates = node_.creates;
  const auto claimed = claim({.resources = {.memory = "512Mi"}});
  ASSERT_TRUE(claimed) << claimed.error().message;
  EXPECT_EQ(node_.requests.at(claimed->id).limits.memory_bytes, 512ULL << 20);
  EXPECT_EQ(counted("atoll_control_claims_tightened_total"), 1U);
  EXPECT_LE(node_.creates, creates + 1) << "only its successor was made";
  const auto wider = claim({.resources = {.memory = "4Gi"}});
  ASSERT_TRUE(wider);
  EXPECT_EQ(node_.requests.at(wider->id).limits.memory_bytes, 4ULL << 30);
  EXPECT_EQ(counted("atoll_control_claims_unprepared_total"), 1U);
}

TEST_F(PreparedTest, WhatCannotBeTightenedIsMadeAnew) {
  refuse("set_limits");
  const auto claimed = claim({.resources = {.memory = "512Mi"}});
  ASSERT_TRUE(claimed) << claimed.error().message;
  EXPECT_EQ(node_.requests.at(claimed->id).limits.memory_bytes, 512ULL << 20);
  EXPECT_TRUE(node_.cells.at(claimed->id).running);
}

TEST_F(PreparedTest, AShapeIsKeptReadyOnceItWasAskedForTwice) {
  ASSERT_TRUE(claim({.resources = {.memory = "4Gi"}}));
  settle();
  EXPECT_EQ(idle(), kMin);
  ASSERT_TRUE(claim({.resources = {.memory = "4Gi"}}));
  settle();
  refuse("create");
  const auto third = claim({.resources = {.memory = "4Gi"}});
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_EQ(node_.requests.at(third->id).limits.memory_bytes, 4ULL << 30);
}

TEST_F(PreparedTest, IdsOfAnotherFormAreAKindOfTheirOwn) {
  const auto first = claim({.id_style = IdStyle::kPlain});
  ASSERT_TRUE(first);
  settle();
  refuse("create");
  const auto second = claim({.id_style = IdStyle::kPlain});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->id.starts_with("i") && second->id.size() == 21) << second->id;
  EXPECT_TRUE(claim()->id.starts_with("rs-default-"));
}

TEST_F(PreparedTest, WhatBeginsElsewhereIsNotPrepared) {
  ClaimRequest request{.template_name = "default"};
  request.origin = Origin{.layers = {"layer-1"}, .limits = {1ULL << 30, 1000, 100, 1ULL << 30}};
  ASSERT_TRUE(claim(std::move(request)));
  EXPECT_EQ(counted("atoll_control_claims_prepared_total"), 0U);
}

TEST_F(PreparedTest, AClaimThatFailsTakesItsCellAlong) {
  const auto before = cells();
  refuse("freeze");
  EXPECT_FALSE(claim({.paused = true}));
  node_.fault = nullptr;
  settle();
  std::size_t left = 0;
  for (const auto& id : before) {
    left += node_.cells.contains(id) ? 1 : 0;
  }
  EXPECT_EQ(left, kMin - 1) << "the one that was taken is gone";
  EXPECT_EQ(node_.cells.size(), kMin);
  EXPECT_TRUE(store_->list_sandboxes()->empty());
}

class Refusing final : public SandboxDocuments {
 public:
  Result<std::vector<store::Record>> begin(const store::Sandbox& row,
                                           const ClaimRequest&) override {
    asked.push_back(row.id);
    return fail(Code::kInvalidArgument, "no");
  }
  void forget(const std::string&) override {}
  store::StringMap environment(const store::Sandbox&) const override { return {}; }
  std::vector<std::string> asked;
};

TEST_F(PreparedTest, ARefusedClaimTakesNothing) {
  const auto before = cells();
  Refusing refusing;
  sandboxes_->add_documents(refusing);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(claim().error().code, Code::kInvalidArgument);
  }
  sandboxes_->remove_documents(refusing);
  settle();
  EXPECT_EQ(cells(), before) << "nor does it count as a demand";
  const auto claimed = claim();
  ASSERT_TRUE(claimed);
  EXPECT_EQ(claimed->id, refusing.asked.front());
  EXPECT_EQ(counted("atoll_control_claims_prepared_total"), 1U);
}

TEST_F(PreparedTest, ABatchThatDoesNotFitTakesNothing) {
  options_.max_sandboxes = 2;
  restart();
  const auto before = cells();
  EXPECT_EQ(simulation_.run(sandboxes_->claim_all({.template_name = "default", .count = 3}))
                .error()
                .reason,
            "quota_exceeded");
  settle();
  EXPECT_EQ(cells(), before);
  EXPECT_TRUE(sandboxes_->list({}).sandboxes.empty());
  const auto some = simulation_.run(
      sandboxes_->claim_all({.template_name = "default", .count = 3, .partial = true}));
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->sandboxes.size(), 2U);
}

TEST_F(PreparedTest, ATemplateThatChangesIsDrained) {
  put_template("app", {"app-1"}, R"({"pool":{"minIdle":3,"maxIdle":6}})");
  EXPECT_EQ(idle("app"), 3U);
  EXPECT_TRUE(sandboxes_->used_layers().contains("app-1"));
  node_.latency = [] { return Duration{std::chrono::milliseconds{2}}; };
  ASSERT_TRUE(
      simulation_.run(sandboxes_->changeable_templates().put(StoreAccess{*store_, nullptr}, [this] {
        Template value = *sandboxes_->templates().find("app", kTeam);
        value.layers = {"app-2"};
        return value;
      }())));
  ASSERT_TRUE(simulation_.run(prepared_->drain_stale()));
  EXPECT_FALSE(sandboxes_->used_layers().contains("app-1"));
  for (const auto& [id, cell] : node_.cells) {
    EXPECT_NE(node_.requests.at(id).layers, std::vector<std::string>{"app-1"}) << id;
  }
  settle();
  EXPECT_EQ(idle("app"), 3U);
  EXPECT_EQ(claim({.template_name = "app"})->layers, std::vector<std::string>{"app-2"});
  ASSERT_TRUE(simulation_.run(
      sandboxes_->changeable_templates().remove(StoreAccess{*store_, nullptr}, "app")));
  ASSERT_TRUE(simulation_.run(prepared_->drain_stale()));
  EXPECT_EQ(idle("app"), 0U);
  EXPECT_EQ(node_.cells.size(), kMin + 1) << "only the sandbox is left of it";
}

TEST_F(PreparedTest, OneThatDiesIsReplacedLessAndLessOften) {
  const auto kill_one = [this] {
    for (const auto& [id, cell] : node_.cells) {
      if (cell.running) {
        node_.kill(id);
        return;
      }
    }
  };
  kill_one();
  simulation_.advance_ms(1);
  EXPECT_EQ(idle(), kMin - 1);
  simulation_.advance_ms(300);
  EXPECT_EQ(idle(), kMin);
  const std::size_t creates = node_.creates;
  for (int i = 0; i < 60'000; ++i) {
    if (idle() == kMin) {
      kill_one();
    }
    simulation_.advance_ms(1);
  }
  EXPECT_LT(node_.creates - creates, 12U) << "in a minute";
  EXPECT_EQ(node_.cells.size(), idle());
}

TEST_F(PreparedTest, ANodeThatComesBackHasNoneOfTheOldOnes) {
  const auto before = cells();
  const auto claimed = claim();
  ASSERT_TRUE(claimed);
  node_.lose(false);
  simulation_.advance_ms(2000);
  EXPECT_EQ(idle(), kMin);
  EXPECT_EQ(node_.cells.size(), kMin + 1);
  for (const auto& id : before) {
    EXPECT_EQ(node_.cells.contains(id), id == claimed->id) << id;
  }
}

TEST_F(PreparedTest, OneThatDiedBeforeItWasThereIsNotKept) {
  node_.latency = [] { return Duration{std::chrono::milliseconds{5}}; };
  std::string victim;
  const auto before = cells();
  ASSERT_TRUE(claim());
  for (int i = 0; i < 100 && victim.empty(); ++i) {
    simulation_.advance_ms(1);
    for (const auto& [id, cell] : node_.cells) {
      victim = before.contains(id) || !cell.running ? victim : id;
    }
  }
  ASSERT_FALSE(victim.empty());
  ASSERT_EQ(idle(), kMin - 1) << "its answer is on the way";
  node_.kill(victim);
  simulation_.advance_ms(1000);
  EXPECT_FALSE(node_.cells.contains(victim));
  EXPECT_EQ(counted("atoll_control_prepared_failed_total"), 1U);
  EXPECT_EQ(idle(), kMin);
  for (const auto& [id, cell] : node_.cells) {
    EXPECT_TRUE(cell.running) << id;
  }
}

TEST_F(PreparedTest, WhatIsLeftOverDoesNotKeepAnybodyWaiting) {
  const auto before = cells();
  refuse("destroy");
  node_.lose(false);
  simulation_.advance_ms(500);
  EXPECT_TRUE(sandboxes_->ready());
  EXPECT_EQ(idle(), kMin);
  for (int i = 0; i < 10; ++i) {
    const auto claimed = claim();
    ASSERT_TRUE(claimed) << claimed.error().message;
    EXPECT_FALSE(before.contains(claimed->id));
  }
  EXPECT_FALSE(simulation_.run(prepared_->drain_stale())) << "nobody knows their layers";
  node_.fault = nullptr;
  simulation_.advance_ms(120'000);
  for (const auto& id : before) {
    EXPECT_FALSE(node_.cells.contains(id)) << id;
  }
  EXPECT_TRUE(simulation_.run(prepared_->drain_stale()));
}

TEST_F(PreparedTest, AnAnswerThatGetsLostLeavesNothing) {
  int lost = 0;
  node_.fault = [&lost](std::string_view operation) {
    return operation == "create" && ++lost <= 2 ? FakeNode::Fault::kAnswerLost
                                                : FakeNode::Fault::kNone;
  };
  ASSERT_TRUE(claim());
  simulation_.advance_ms(10'000);
  EXPECT_GE(lost, 2);
  EXPECT_EQ(node_.cells.size(), idle() + 1);
}

TEST_F(PreparedTest, TheEndLeavesOnlySandboxes) {
  const auto claimed = claim();
  ASSERT_TRUE(claimed);
  settle();
  stop();
  EXPECT_EQ(cells(), std::set<std::string>{claimed->id});
  start();
  // Killed: nothing more reaches the node.
  node_.fault = [](std::string_view) { return FakeNode::Fault::kUnreached; };
  stop();
  EXPECT_EQ(node_.cells.size(), kMin + 1);
  node_.fault = nullptr;
  pool_.max_idle = 0;
  start();
  EXPECT_EQ(cells(), std::set<std::string>{claimed->id}) << "cells without a row are destroyed";
}

}  // namespace
}  // namespace atl::control
