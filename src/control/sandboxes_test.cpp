// One sandbox at a time: what each transition does, and what each failure leaves.
#include "control/sandboxes.h"

#include "base/random.h"
#include "control/identity.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

TEST_F(SandboxesTest, ClaimMakesARowAndACellWithLimitsAndAReadableId) {
  ClaimRequest request{.template_name = "base", .env = {{"A", "1"}}};
  request.resources = {.memory = "512Mi", .cpu = "1500m", .disk = "1Gi"};
  const auto sandbox = claim(std::move(request));
  ASSERT_TRUE(sandbox) << sandbox.error().message;
  EXPECT_TRUE(sandbox->id.starts_with("rs-default-"));
  EXPECT_LE(sandbox->id.size(), 55U);
  EXPECT_EQ(sandbox->template_name, "default");
  EXPECT_EQ(sandbox->status, SandboxStatus::kRunning);
  EXPECT_EQ(store_->find_sandbox(sandbox->id)->status, SandboxStatus::kRunning);
  EXPECT_TRUE(node_.cells.at(sandbox->id).running);
  const auto& asked = node_.requests.at(sandbox->id);
  EXPECT_EQ(asked.layers, std::vector<std::string>{"layer-1"});
  EXPECT_EQ(asked.limits.memory_bytes, 512ULL << 20);
  EXPECT_EQ(asked.limits.cpu_millis, 1500U);
  EXPECT_EQ(asked.limits.disk_bytes, 1ULL << 30);
  EXPECT_EQ(asked.limits.process_count, 4096U);
  EXPECT_FALSE(asked.existing_upper);
}

TEST_F(SandboxesTest, BadClaimsAreRefusedWithTheReasonAndLeaveNothing) {
  const auto refused = [this](ClaimRequest request, Code code, std::string_view word) {
    const auto result = claim(std::move(request));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code);
    EXPECT_NE(result.error().message.find(word), std::string::npos) << result.error().message;
  };
  refused({.template_name = "nope"}, Code::kNotFound, "there is: default");
  refused({.resources = {.memory = "1Mi"}}, Code::kInvalidArgument, "128Mi to 16Gi");
  refused({.resources = {.memory = "lots"}}, Code::kInvalidArgument, "config.resources.memory");
  refused({.resources = {.disk = "101Gi"}}, Code::kInvalidArgument, "64Mi to 100Gi");
  refused({.resources = {.cpu = "5"}}, Code::kInvalidArgument, "from 50m to 4");
  refused({.resources = {.cpu = "1e3"}}, Code::kInvalidArgument, "config.resources.cpu");
  refused({.ttl_seconds = 9, .hard_ttl_seconds = 8}, Code::kInvalidArgument, "hard_ttl");
  refused({.env = {{"A=B", "1"}}}, Code::kInvalidArgument, "A=B");
  EXPECT_TRUE(node_.cells.empty());
  EXPECT_TRUE(store_->list_sandboxes()->empty());
}

TEST_F(SandboxesTest, QuotaCounts) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(claim());
  }
  const auto sixth = claim();
  ASSERT_FALSE(sixth);
  EXPECT_EQ(sixth.error().reason, "quota_exceeded");
  const auto page = sandboxes_->list({.limit = 2, .offset = 1});
  EXPECT_EQ(page.sandboxes.size(), 2U);
  EXPECT_TRUE(page.has_more);
  EXPECT_TRUE(sandboxes_->list({.team_id = "other"}).sandboxes.empty());
}

TEST_F(SandboxesTest, AClaimTheNodeRefusesLeavesNothing) {
  node_.fault = [](std::string_view operation) {
    return operation == "create" ? FakeNode::Fault::kRefused : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(claim());
  EXPECT_TRUE(store_->list_sandboxes()->empty());
  EXPECT_TRUE(sandboxes_->list({}).sandboxes.empty());
}

TEST_F(SandboxesTest, AClaimWhoseAnswerWasLostLeavesNoCell) {
  node_.fault = [](std::string_view operation) {
    return operation == "create" ? FakeNode::Fault::kAnswerLost : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(claim());
  EXPECT_TRUE(node_.cells.empty());
  EXPECT_TRUE(store_->list_sandboxes()->empty());
}

TEST_F(SandboxesTest, DeleteRemovesRowAndCellAndIsThenNotFound) {
  const std::string id = claim()->id;
  EXPECT_EQ(simulation_.run(sandboxes_->remove("other", id)).error().code, Code::kNotFound);
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id)));
  EXPECT_TRUE(node_.cells.empty());
  EXPECT_EQ(sandboxes_->get(kTeam, id).error().code, Code::kNotFound);
  EXPECT_EQ(simulation_.run(sandboxes_->remove(kTeam, id)).error().code, Code::kNotFound);
}

TEST_F(SandboxesTest, ADeleteTheNodeCannotDoYetIsRecordedAndFinishesByItself) {
  const std::string id = claim()->id;
  node_.fault = [](std::string_view) { return FakeNode::Fault::kUnreached; };
  EXPECT_EQ(simulation_.run(sandboxes_->remove(kTeam, id)).error().code, Code::kUnavailable);
  EXPECT_EQ(status(id), SandboxStatus::kTerminating);
  EXPECT_EQ(store_->find_sandbox(id)->status, SandboxStatus::kTerminating);
  node_.fault = nullptr;
  simulation_.advance_ms(5000);
  EXPECT_EQ(sandboxes_->get(kTeam, id).error().code, Code::kNotFound);
  EXPECT_TRUE(node_.cells.empty());
}

TEST_F(SandboxesTest, ExpiryComesAtTheSecondNotBefore) {
  const auto soft = claim({.ttl_seconds = 10, .hard_ttl_seconds = 20});
  const auto hard = claim({.hard_ttl_seconds = 15});
  const auto never = claim();
  ASSERT_TRUE(soft && hard && never);
  EXPECT_EQ(soft->expires_at, soft->claimed_at + 10'000);
  simulation_.advance_ms(9'900);
  EXPECT_EQ(status(soft->id), SandboxStatus::kRunning);
  simulation_.advance_ms(200);
  EXPECT_EQ(status(soft->id), SandboxStatus::kPaused);
  EXPECT_EQ(status(hard->id), SandboxStatus::kRunning);
  simulation_.advance_ms(5'000);
  EXPECT_FALSE(sandboxes_->get(kTeam, hard->id));
  EXPECT_EQ(status(soft->id), SandboxStatus::kPaused);
  simulation_.advance_ms(5'000);
  EXPECT_FALSE(sandboxes_->get(kTeam, soft->id)) << "the hard ttl goes on in a pause";
  EXPECT_TRUE(sandboxes_->get(kTeam, never->id));
}

TEST_F(SandboxesTest, ADeadCellComesBackOnItsFilesystem) {
  const std::string id = claim()->id;
  node_.kill(id);
  simulation_.advance_ms(10);
  EXPECT_TRUE(node_.cells.at(id).running);
  EXPECT_TRUE(node_.requests.at(id).existing_upper);
  EXPECT_EQ(sandboxes_->get(kTeam, id)->generation, 2);
  EXPECT_EQ(store_->find_sandbox(id)->generation, 2);
}

TEST_F(SandboxesTest, ACellThatKeepsDyingFails) {
  const std::string id = claim()->id;
  for (int i = 0; i < 4; ++i) {
    node_.kill(id);
    simulation_.advance_ms(100);
  }
  EXPECT_EQ(status(id), SandboxStatus::kFailed);
  EXPECT_EQ(sandboxes_->get(kTeam, id)->generation, 4);
  const auto use = simulation_.run(sandboxes_->running(kTeam, id));
  EXPECT_EQ(use.error().code, Code::kUnavailable);
  EXPECT_NE(use.error().message.find("died"), std::string::npos);
  EXPECT_TRUE(simulation_.run(sandboxes_->remove(kTeam, id)));
}

TEST_F(SandboxesTest, DeathsFarApartAreForgiven) {
  const std::string id = claim()->id;
  for (int i = 0; i < 6; ++i) {
    node_.kill(id);
    simulation_.advance_ms(61'000);
  }
  EXPECT_EQ(status(id), SandboxStatus::kRunning);
}

TEST_F(SandboxesTest, AnUpperThatIsGoneMeansFailedNotLost) {
  const std::string id = claim()->id;
  node_.cells[id].upper = false;
  node_.kill(id);
  simulation_.advance_ms(10);
  EXPECT_EQ(status(id), SandboxStatus::kFailed);
}

TEST_F(SandboxesTest, LosingTheNodeRestartsEverythingWhenItIsBack) {
  const std::string first = claim()->id;
  const std::string second = claim()->id;
  bool away = true;
  node_.fault = [&away](std::string_view) {
    return away ? FakeNode::Fault::kUnreached : FakeNode::Fault::kNone;
  };
  node_.lose(true);
  simulation_.advance_ms(1000);
  EXPECT_FALSE(sandboxes_->ready());
  EXPECT_EQ(claim().error().code, Code::kUnavailable);
  away = false;
  simulation_.advance_ms(3000);
  EXPECT_TRUE(sandboxes_->ready());
  EXPECT_TRUE(node_.cells.at(first).running);
  EXPECT_TRUE(node_.cells.at(second).running);
  EXPECT_EQ(sandboxes_->get(kTeam, first)->generation, 2);
}

TEST_F(SandboxesTest, StartAdoptsRestartsRemovesAndDestroysOrphans) {
  const std::string adopted = claim()->id;
  const std::string dead = claim()->id;
  const std::string half = claim()->id;
  close();
  node_.cells[dead].running = false;
  node_.cells["rs-orphan"] = {.running = true, .upper = true};
  {
    auto rows = *store::open_sqlite_store(directory_.path() + "/atoll.db");
    ASSERT_TRUE(rows->change_sandbox(half, {SandboxStatus::kRunning, 1},
                                     {.status = SandboxStatus::kTerminating}, {},
                                     store::Durability::kQuick));
  }
  open();
  EXPECT_EQ(sandboxes_->get(kTeam, adopted)->generation, 1);
  EXPECT_EQ(sandboxes_->get(kTeam, dead)->generation, 2);
  EXPECT_FALSE(sandboxes_->get(kTeam, half));
  EXPECT_EQ(node_.cells.size(), 2U);
  EXPECT_TRUE(node_.cells.at(dead).running);
}

TEST_F(SandboxesTest, OperationsOnOneSandboxWaitForEachOther) {
  const std::string id = claim()->id;
  node_.latency = [] { return Duration{std::chrono::milliseconds{5}}; };
  std::optional<Result<>> first;
  std::optional<Result<>> second;
  Scope scope{simulation_.loop};
  scope.spawn("first", Simulation::store_result(sandboxes_->remove(kTeam, id), first));
  scope.spawn("second", Simulation::store_result(sandboxes_->remove(kTeam, id), second));
  simulation_.advance_ms(100);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->has_value(), second->has_value());
  ASSERT_TRUE(simulation_.run(scope.join()));
}

TEST(Identity, KnowsKeysByHashOnlyAndForgetsTheOldAdminKey) {
  TemporaryDirectory directory;
  Simulation simulation;
  auto store = *store::open_sqlite_store(directory.path() + "/atoll.db");
  Identity identity{StoreAccess{*store, nullptr}, simulation.clock};
  ASSERT_TRUE(simulation.run(identity.load()));
  EXPECT_EQ(identity.authenticate("one").error().code, Code::kUnauthenticated);
  ASSERT_TRUE(simulation.run(identity.ensure_admin_key(sha256("one"))));
  ASSERT_TRUE(simulation.run(identity.ensure_admin_key(sha256("one"))));
  const auto principal = identity.authenticate("one");
  ASSERT_TRUE(principal);
  EXPECT_TRUE(principal->may(Permission::kSandboxDelete));
  ASSERT_TRUE(simulation.run(identity.ensure_admin_key(sha256("two"))));
  EXPECT_FALSE(identity.authenticate("one"));
  EXPECT_TRUE(identity.authenticate("two"));
  EXPECT_FALSE(identity.authenticate(""));
}

TEST(Identity, ExpiredAndInactiveKeysAreRefusedAndViewersOnlyRead) {
  TemporaryDirectory directory;
  Simulation simulation;
  auto store = *store::open_sqlite_store(directory.path() + "/atoll.db");
  const UnixMillis now = simulation.clock.now();
  ASSERT_TRUE(store->put_api_key(
      {.id = "a", .key_sha256 = sha256("viewer"), .roles = {"viewer"}, .expires_at = now + 1000}));
  ASSERT_TRUE(store->put_api_key({.id = "b", .key_sha256 = sha256("off"), .active = false}));
  Identity identity{StoreAccess{*store, nullptr}, simulation.clock};
  ASSERT_TRUE(simulation.run(identity.load()));
  EXPECT_FALSE(identity.authenticate("off"));
  const auto viewer = identity.authenticate("viewer");
  ASSERT_TRUE(viewer);
  EXPECT_TRUE(viewer->may(Permission::kSandboxRead));
  EXPECT_FALSE(viewer->may(Permission::kSandboxWrite));
  simulation.clock.advance_ms(1001);
  EXPECT_FALSE(identity.authenticate("viewer"));
}

}  // namespace
}  // namespace atl::control
