#include "control/sandbox_terms.h"

#include "base/random.h"
#include "control/access_tokens.h"
#include "control/identity.h"
#include "control/sandboxes_fixture.h"
#include "control/snapshots.h"

namespace atl::control {
namespace {

class SandboxTermsTest : public SandboxesTest {
 protected:
  void SetUp() override {
    SandboxesTest::SetUp();
    open_terms();
  }
  void TearDown() override {
    SandboxesTest::TearDown();
    terms_.reset();
  }
  void open_terms() {
    log_ = std::make_unique<SandboxLog>(*sandboxes_, simulation_.clock);
    terms_ = std::make_unique<SandboxTerms>(StoreAccess{*store_, nullptr}, *sandboxes_,
                                            simulation_.clock);
    terms_->log_to(log_.get());
    ASSERT_TRUE(simulation_.run(terms_->start()));
  }
  std::string make(const Terms& terms, std::int64_t ttl_seconds = 0) {
    return claim({.id_style = IdStyle::kPlain,
                  .ttl_seconds = ttl_seconds,
                  .auto_resume = terms.auto_resume,
                  .documents = {SandboxTerms::document(terms)}})
        ->id;
  }

  std::unique_ptr<SandboxLog> log_;
  std::unique_ptr<SandboxTerms> terms_;
};

TEST_F(SandboxTermsTest, AreRememberedAndHandedOn) {
  const Terms terms{.timeout_seconds = 9,
                    .ttl_end = TtlEnd::kPauseDisk,
                    .auto_resume = false,
                    .secure = false,
                    .public_traffic = false,
                    .request_host = "localhost:${PORT}",
                    .https_ports = {443, 8443},
                    .asked_template = "base",
                    .internet = false,
                    .network = R"({"denyOut":["0.0.0.0/0"]})",
                    .mounts = {{"data", "/mnt"}}};
  const std::string id = make(terms);
  EXPECT_EQ(id.size(), 21U);
  EXPECT_TRUE(id.starts_with('i') && !id.contains('-')) << id;
  ASSERT_TRUE(terms_->find(id));
  EXPECT_EQ(*terms_->find(id), terms);
  Snapshots snapshots{StoreAccess{*store_, nullptr}, node_, *sandboxes_, simulation_.clock};
  const auto forked = simulation_.run(snapshots.fork(kTeam, id, {.start = true}));
  ASSERT_TRUE(forked) << forked.error().message;
  const std::string child = forked->sandboxes.front().id;
  EXPECT_FALSE(child.contains('-')) << "a fork is called as its parent is";
  EXPECT_EQ(*terms_->find(child), terms);
  close();
  open();
  open_terms();
  EXPECT_EQ(*terms_->find(id), terms);
  Terms other = terms;
  other.secure = true;
  ASSERT_TRUE(simulation_.run(terms_->put(kTeam, id, other)));
  EXPECT_EQ(*terms_->find(id), other);
}

TEST_F(SandboxTermsTest, SayWhatTheEndOfTimeMeans) {
  const std::string dies = make({.ttl_end = TtlEnd::kDelete}, 5);
  const std::string stops = make({.ttl_end = TtlEnd::kPause}, 5);
  const std::string sleeps = make({.ttl_end = TtlEnd::kPauseDisk}, 5);
  const std::string usual = claim({.ttl_seconds = 5})->id;
  simulation_.advance_ms(4'000);
  EXPECT_EQ(status(dies), SandboxStatus::kRunning);
  simulation_.advance_ms(2'000);
  EXPECT_FALSE(sandboxes_->get(kTeam, dies));
  EXPECT_EQ(status(stops), SandboxStatus::kPaused);
  EXPECT_EQ(sandboxes_->memory_of(stops), PauseMemory::kKeep);
  EXPECT_EQ(status(sleeps), SandboxStatus::kPaused);
  EXPECT_EQ(sandboxes_->memory_of(sleeps), PauseMemory::kDrop);
  EXPECT_EQ(status(usual), SandboxStatus::kPaused);
  ASSERT_EQ(log_->read(stops).size(), 1U);
  // Paused, its time does not run, however long.
  simulation_.advance_ms(20'000);
  EXPECT_EQ(status(stops), SandboxStatus::kPaused);
}

TEST_F(SandboxTermsTest, TrafficWakesWhoeverWantsThat) {
  const std::string wakes = make({.timeout_seconds = 5, .ttl_end = TtlEnd::kPause}, 5);
  const std::string stays =
      make({.timeout_seconds = 5, .ttl_end = TtlEnd::kPause, .auto_resume = false}, 5);
  const std::string sleeps = make({.timeout_seconds = 5, .ttl_end = TtlEnd::kPauseDisk}, 5);
  simulation_.advance_ms(6'000);
  const auto woken = simulation_.run(terms_->wake(kTeam, wakes));
  ASSERT_TRUE(woken) << woken.error().message;
  EXPECT_EQ(woken->status, SandboxStatus::kRunning);
  EXPECT_EQ(woken->ttl_seconds, kMinWakeSeconds);
  simulation_.advance_ms(60'000);
  EXPECT_EQ(status(wakes), SandboxStatus::kRunning) << "woken for at least five minutes";
  for (const std::string& id : {stays, sleeps}) {
    const auto refused = simulation_.run(terms_->wake(kTeam, id));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "sandbox_paused");
  }
  EXPECT_FALSE(simulation_.run(terms_->wake("other-team", wakes)));
}

TEST_F(SandboxTermsTest, WakingTheUsualOnesKeepsTheirTime) {
  const std::string id = claim({.ttl_seconds = 5, .auto_resume = true})->id;
  simulation_.advance_ms(6'000);
  ASSERT_EQ(status(id), SandboxStatus::kPaused);
  const auto woken = simulation_.run(terms_->wake(kTeam, id));
  ASSERT_TRUE(woken) << woken.error().message;
  EXPECT_EQ(woken->ttl_seconds, 5);
  const auto usual = terms_->of(*woken);
  EXPECT_TRUE(usual->secure);
  EXPECT_FALSE(usual->public_traffic);
}

TEST_F(SandboxTermsTest, WhatCannotBeReadIsClosed) {
  const std::string id = make({.secure = false});
  store::Record broken = SandboxTerms::document({});
  broken.id = broken.owner_id = id;
  broken.team_id = kTeam;
  broken.version = 2;
  broken.body = "[";
  ASSERT_TRUE(store_->put_record(broken, 1));
  close();
  open();
  open_terms();
  const auto terms = terms_->find(id);
  ASSERT_TRUE(terms);
  EXPECT_TRUE(terms->secure);
  EXPECT_FALSE(terms->public_traffic || terms->auto_resume);
  ASSERT_TRUE(simulation_.run(terms_->put(kTeam, id, {})));
}

TEST_F(SandboxTermsTest, LogsAreBounded) {
  const std::string id = make({});
  for (std::size_t i = 0; i < kMaxLogLines + 100; ++i) {
    log_->add(id, {.source = "x", .message = std::string(kMaxLogMessageBytes * 2, 'y')});
  }
  const auto lines = log_->read(id);
  EXPECT_LE(lines.size() * kMaxLogMessageBytes, kMaxLogBytes);
  EXPECT_GE(lines.size(), 50U);
  EXPECT_EQ(lines.back().message.size(), kMaxLogMessageBytes);
  log_->add("nobody", {.source = "x", .message = "y"});
  EXPECT_TRUE(log_->read("nobody").empty());
}

TEST_F(SandboxTermsTest, TokensAreTheSameForeverAndTellTheirPurposes) {
  const auto keyring = secrets::Keyring::parse(secrets::Keyring::make_key_line());
  ASSERT_TRUE(keyring);
  const StoreAccess access{*store_, nullptr};
  auto first = simulation_.run(load_or_make_token_seed(access, *keyring, simulation_.clock));
  auto again = simulation_.run(load_or_make_token_seed(access, *keyring, simulation_.clock));
  ASSERT_TRUE(first && again);
  const AccessTokens tokens{*std::move(first)};
  const AccessTokens same{*std::move(again)};
  EXPECT_EQ(tokens.agent_token("a"), same.agent_token("a"));
  EXPECT_EQ(tokens.agent_token("a").size(), 64U);
  EXPECT_NE(tokens.agent_token("a"), tokens.agent_token("b"));
  EXPECT_NE(tokens.agent_token("a"), tokens.traffic_token("a"));
}

TEST_F(SandboxTermsTest, AKeyIsTheSameInTheFormOfE2b) {
  Identity identity{StoreAccess{*store_, nullptr}, simulation_.clock};
  const std::string digits(40, 'a');
  ASSERT_TRUE(simulation_.run(identity.ensure_admin_key(sha256("atoll_" + digits))));
  EXPECT_TRUE(identity.authenticate("atoll_" + digits));
  EXPECT_TRUE(identity.authenticate("e2b_" + digits));
  EXPECT_FALSE(identity.authenticate("e2b_" + std::string(40, 'b')));
  EXPECT_FALSE(identity.authenticate(digits));
}

}  // namespace
}  // namespace atl::control
