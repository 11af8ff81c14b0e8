// Sandboxes on the network: attached whenever they have a cell, with the rules of that moment.
#include "control/networks.h"

#include "control/peers.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

// Remembers what it is told.
class FakeBoundary final : public egress::Boundary {
 public:
  Result<> attach(egress::RulesPtr rules, egress::Sockets sockets) override {
    CHECK(sockets.tcp && sockets.udp && sockets.dns);
    if (failing > 0) {
      --failing;
      return fail(Code::kResourceExhausted, "no descriptors");
    }
    ++attaches;
    attached[rules->sandbox_id] = std::move(rules);
    return {};
  }
  void set_rules(egress::RulesPtr rules) override {
    CHECK(attached.contains(rules->sandbox_id));
    attached[rules->sandbox_id] = std::move(rules);
  }
  void detach(std::string_view sandbox_id) override {
    ++detaches;
    attached.erase(std::string{sandbox_id});
  }
  egress::Mode mode(const std::string& id) const {
    return attached.at(id)->layers.front().policy.mode;
  }

  std::map<std::string, egress::RulesPtr> attached;
  int attaches = 0;
  int detaches = 0;
  int failing = 0;
};

// Rules with a number; how long an answer takes can be said.
class NumberedRules final : public RulesSource {
 public:
  Task<egress::RulesPtr> rules(Sandbox sandbox) override {
    auto rules = std::make_shared<egress::SandboxRules>();
    rules->sandbox_id = sandbox.id;
    rules->team_id = sandbox.team_id;
    rules->name = std::to_string(next++);
    rules->layers.push_back({"sandbox", {}});
    if (unreadable) {
      co_return fail(Code::kInternal, "the rules are broken");
    }
    if (const Duration pause = std::exchange(slow, Duration::zero()); pause > Duration::zero()) {
      CO_TRY_DO(co_await sleep_for(pause));
    }
    co_return std::move(rules);
  }
  int next = 1;
  bool unreadable = false;
  Duration slow = Duration::zero();
};

class NetworksTest : public SandboxesTest {
 protected:
  void SetUp() override {
    node_.has_egress = true;
    open_networked();
  }
  void TearDown() override { close_networked(); }

  void open_networked() {
    store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
    sandboxes_ = std::make_unique<Sandboxes>(StoreAccess{*store_, nullptr}, node_,
                                             simulation_.clock, metrics_, options_);
    networks_ = std::make_unique<Networks>(Networks::Parts{.reactor = reactor_,
                                                           .node = node_,
                                                           .sandboxes = *sandboxes_,
                                                           .boundary = boundary_,
                                                           .rules = rules_});
    const auto started = simulation_.run(sandboxes_->start());
    ASSERT_TRUE(started) << started.error().message;
    scope_ = std::make_unique<Scope>(simulation_.loop);
    scope_->spawn("run", sandboxes_->run());
    scope_->spawn("networks", networks_->run());
    simulation_.advance_ms(1);
  }
  void close_networked() {
    EXPECT_TRUE(simulation_.run(scope_->cancel_and_join()));
    scope_.reset();
    networks_.reset();
    close();
  }
  Result<> refresh(const std::string& id) { return simulation_.run(networks_->refresh(id)); }

  io::Reactor reactor_;  // nobody connects here
  FakeBoundary boundary_;
  NumberedRules rules_;
  std::unique_ptr<Networks> networks_;
};

TEST_F(NetworksTest, AClaimedSandboxIsAttachedWithTheSocketsOfItsCreate) {
  const auto claimed = claim();
  ASSERT_TRUE(claimed) << claimed.error().message;
  EXPECT_TRUE(boundary_.attached.contains(claimed->id));
  EXPECT_EQ(node_.networks_opened, 0U) << "no question more";
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, claimed->id)));
  EXPECT_TRUE(boundary_.attached.empty());
}

TEST_F(NetworksTest, APauseInMemoryKeepsItAndOneToDiskCutsIt) {
  const std::string id = claim()->id;
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, id, PauseMemory::kKeep)));
  EXPECT_TRUE(boundary_.attached.contains(id));
  ASSERT_TRUE(simulation_.run(sandboxes_->resume(kTeam, id)));
  EXPECT_EQ(boundary_.attaches, 1) << "the same sockets";
  for (const PauseMemory memory : {PauseMemory::kDump, PauseMemory::kDrop}) {
    ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, id, memory)));
    EXPECT_FALSE(boundary_.attached.contains(id));
    ASSERT_TRUE(simulation_.run(sandboxes_->resume(kTeam, id)));
    EXPECT_TRUE(boundary_.attached.contains(id));
  }
  EXPECT_EQ(boundary_.attaches, 3);
}

TEST_F(NetworksTest, ANewCellAfterADeathIsAttached) {
  const std::string id = claim()->id;
  node_.kill(id);
  simulation_.advance_ms(1000);
  EXPECT_TRUE(node_.cells.at(id).running);
  EXPECT_EQ(boundary_.attaches, 2);
  EXPECT_TRUE(boundary_.attached.contains(id));
}

TEST_F(NetworksTest, WhatRunsIsAttachedAgainByTheNextProcess) {
  const std::string running = claim()->id;
  const std::string frozen = claim()->id;
  ASSERT_TRUE(simulation_.run(sandboxes_->pause(kTeam, frozen, PauseMemory::kKeep)));
  close_networked();
  boundary_ = {};
  open_networked();
  EXPECT_TRUE(boundary_.attached.contains(running));
  EXPECT_TRUE(boundary_.attached.contains(frozen));
  EXPECT_EQ(node_.networks_opened, 2U);
}

TEST_F(NetworksTest, ALostNodeChangesNothing) {
  const std::string id = claim()->id;
  node_.lose(false);
  simulation_.advance_ms(5000);
  EXPECT_TRUE(boundary_.attached.contains(id));
  EXPECT_EQ(boundary_.attaches, 1);
}

TEST_F(NetworksTest, WhatCannotBeAttachedIsTriedAgain) {
  boundary_.failing = 2;
  const auto claimed = claim();
  ASSERT_TRUE(claimed) << "it runs, without a network";
  EXPECT_TRUE(boundary_.attached.empty());
  simulation_.advance_ms(60'000);
  EXPECT_TRUE(boundary_.attached.contains(claimed->id));
}

TEST_F(NetworksTest, RulesThatCannotBeHadAreClosedUntilTheyCan) {
  rules_.unreadable = true;
  const std::string id = claim()->id;
  EXPECT_EQ(boundary_.mode(id), egress::Mode::kBlockAll);
  rules_.unreadable = false;
  simulation_.advance_ms(5000);
  EXPECT_EQ(boundary_.mode(id), egress::Mode::kAllowAll);
  rules_.unreadable = true;
  EXPECT_FALSE(refresh(id));
  EXPECT_EQ(boundary_.mode(id), egress::Mode::kBlockAll) << "those of before do not count on";
}

TEST_F(NetworksTest, WhatFailsForOneIsNoFailureOfAll) {
  const std::string id = claim()->id;
  rules_.unreadable = true;
  EXPECT_TRUE(simulation_.run(networks_->refresh_all()));
  EXPECT_EQ(boundary_.mode(id), egress::Mode::kBlockAll);
  rules_.unreadable = false;
  EXPECT_TRUE(simulation_.run(networks_->refresh_all()));
  EXPECT_EQ(boundary_.mode(id), egress::Mode::kAllowAll);
}

TEST_F(NetworksTest, AnAnswerThatCameLateDoesNotWin) {
  const std::string id = claim()->id;
  rules_.slow = std::chrono::milliseconds{500};
  scope_->spawn("slow", networks_->refresh(id));
  simulation_.advance_ms(10);
  ASSERT_TRUE(refresh(id));
  EXPECT_EQ(boundary_.attached.at(id)->name, "3");
  simulation_.advance_ms(1000);
  EXPECT_EQ(boundary_.attached.at(id)->name, "3");
}

TEST_F(NetworksTest, WithoutEgressNothingIsAttached) {
  close_networked();
  node_.has_egress = false;
  open_networked();
  ASSERT_TRUE(claim());
  EXPECT_EQ(boundary_.attaches, 0);
  EXPECT_FALSE(sandboxes_->has_egress());
}

TEST_F(NetworksTest, PeersAreThoseOfTheTeamThatShareAGroup) {
  const std::string db = claim({.name = "db"})->id;
  const std::string web = claim({.name = "web"})->id;
  std::map<std::string, std::vector<std::string>> groups = {{db, {"shop", "data"}},
                                                            {web, {"other"}}};
  InsidePorts ports{reactor_, node_, *sandboxes_};
  SandboxPeers peers{*sandboxes_, ports, [&](const Sandbox& each) { return groups[each.id]; }};
  egress::SandboxRules caller;
  caller.sandbox_id = web;
  caller.team_id = kTeam;
  EXPECT_FALSE(peers.find(caller, "db")) << "in no group";
  caller.groups = {"other"};
  EXPECT_FALSE(peers.find(caller, "db")) << "in another group";
  EXPECT_FALSE(peers.find(caller, "web")) << "itself";
  caller.groups = {"data"};
  EXPECT_EQ(peers.find(caller, "db"), db);
  EXPECT_FALSE(peers.find(caller, "nobody"));
  caller.team_id = "somebody-else";
  EXPECT_FALSE(peers.find(caller, "db"));
  caller.team_id = kTeam;
  groups[db].clear();
  const auto refused =
      simulation_.run(peers.connect(std::make_shared<egress::SandboxRules>(caller), db, 80));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "not_a_peer");
}

}  // namespace
}  // namespace atl::control
