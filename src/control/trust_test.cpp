// When a sandbox is told whom to trust, and what; by a guest that writes down what it is told.
#include "control/trust.h"

#include <gtest/gtest.h>

#include "control/fake_guest.h"
#include "control/fake_node.h"
#include "control/fixture.h"
#include "tls/mint.h"
#include "tls/subject_hash.h"

namespace atl::control {
namespace {

class FakeAuthorities final : public egress::Authorities {
 public:
  FakeAuthorities() { renew(); }
  void renew() {
    auto made = std::make_shared<egress::Authority>();
    made->certificate_pem = tls::mint_authority({.common_name = "test"})->certificate_pem;
    authority_ = std::move(made);
  }
  const std::string& pem() const { return authority_->certificate_pem; }
  Task<std::shared_ptr<const egress::Authority>> authority(std::string) override {
    ++asked;
    co_return authority_;
  }
  int asked = 0;

 private:
  std::shared_ptr<const egress::Authority> authority_;
};

egress::RulesPtr rules(bool opens_tls) {
  auto made = std::make_shared<egress::SandboxRules>();
  egress::Policy policy;
  if (opens_tls) {
    policy.protocol_rules.push_back({.tls_mode = egress::TlsMode::kTerminate});
  }
  made->layers.push_back({"sandbox", std::move(policy)});
  return made;
}

Sandbox sandbox(SandboxStatus status = SandboxStatus::kRunning) {
  Sandbox made;
  made.id = "rs-1";
  made.template_name = "default";
  made.status = status;
  return made;
}

class TrustTest : public testing::Test {
 protected:
  TrustTest() {
    guest_.script = [this](io::Stream& stream) { return answer(stream); };
  }
  void run(Task<> script) {
    const auto done = reactor_.run_until_complete(beside(std::move(script)));
    EXPECT_TRUE(done) << done.error().message;
  }
  Task<> beside(Task<> script) {
    Scope scope{co_await current_context()};
    scope.spawn("guest", guest_.run());
    auto done = co_await with_deadline(std::chrono::seconds{30}, std::move(script));
    (void)co_await scope.cancel_and_join();
    co_return std::move(done);
  }
  Task<> answer(io::Stream& stream) {
    std::string header(guest::kFrameHeaderBytes, '\0');
    CO_TRY_DO(co_await io::read_exactly(stream, std::span{header}));
    CO_TRY(const auto frame, guest::decode_header(header));
    std::string payload(frame.payload_bytes, '\0');
    CO_TRY_DO(co_await io::read_exactly(stream, std::span{payload}));
    EXPECT_EQ(frame.kind, guest::Kind::kInstallTrust);
    CO_TRY(auto request, guest::decode_trust(payload));
    if (failing_ > 0) {
      --failing_;
      co_return fail(Code::kUnavailable, "it hangs up");
    }
    told_.push_back(std::move(request));
    arrived_.set();
    const std::string done = guest::encode_frame(guest::Kind::kDone);
    co_return co_await stream.write(done);
  }

  Task<> come_and_go() {
    CO_TRY_DO(co_await trust_.greet(sandbox(), rules(false)));
    EXPECT_TRUE(told_.empty());
    EXPECT_EQ(authorities_.asked, 0);
    CO_TRY_DO(co_await trust_.greet(sandbox(), rules(true)));
    EXPECT_EQ(told_.size(), 1U);
    EXPECT_EQ(told_.at(0).certificate_pem, authorities_.pem());
    EXPECT_EQ(told_.at(0).subject_hash, *tls::subject_hash(authorities_.pem()));
    CO_TRY_DO(co_await trust_.change(sandbox(), rules(true)));
    EXPECT_EQ(told_.size(), 1U);
    CO_TRY_DO(co_await trust_.change(sandbox(), rules(false)));
    EXPECT_EQ(told_.size(), 2U);
    EXPECT_TRUE(told_.at(1).certificate_pem.empty());
    CO_TRY_DO(co_await trust_.change(sandbox(), rules(false)));
    EXPECT_EQ(told_.size(), 2U);
    co_return ok();
  }

  Task<> stand_still() {
    CO_TRY_DO(co_await trust_.change(sandbox(SandboxStatus::kPaused), rules(true)));
    EXPECT_TRUE(told_.empty());
    CO_TRY_DO(co_await trust_.wake(sandbox()));
    EXPECT_EQ(told_.size(), 1U);
    CO_TRY_DO(co_await trust_.wake(sandbox()));
    EXPECT_EQ(told_.size(), 1U);
    CO_TRY_DO(co_await trust_.change(sandbox(SandboxStatus::kPaused), rules(false)));
    CO_TRY_DO(co_await trust_.wake(sandbox()));
    EXPECT_EQ(told_.size(), 2U);
    EXPECT_TRUE(told_.at(1).certificate_pem.empty());
    // Wanted and then not, while it stood still: nothing happened.
    CO_TRY_DO(co_await trust_.change(sandbox(SandboxStatus::kPaused), rules(true)));
    CO_TRY_DO(co_await trust_.change(sandbox(SandboxStatus::kPaused), rules(false)));
    CO_TRY_DO(co_await trust_.wake(sandbox()));
    EXPECT_EQ(told_.size(), 2U);
    co_return ok();
  }

  // As the guest hangs up, and with a renewal.
  Task<> fail_and_try_again() {
    while (!sandboxes_.ready()) {
      CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{1}));
    }
    CO_TRY(const Sandbox row, co_await sandboxes_.claim({.template_name = "default"}));
    failing_ = 2;
    CO_TRY_DO(co_await trust_.greet(row, rules(true)));
    EXPECT_EQ(failing_, 1);
    while (told_.empty()) {
      arrived_.clear();
      CO_TRY_DO(co_await arrived_.wait());
    }
    EXPECT_EQ(failing_, 0);
    authorities_.renew();
    trust_.renew(row.id);
    while (told_.size() < 2) {
      arrived_.clear();
      CO_TRY_DO(co_await arrived_.wait());
    }
    EXPECT_EQ(told_.back().certificate_pem, authorities_.pem());
    // A cell that an earlier process has made.
    trust_.forget(row.id);
    trust_.plan(row, rules(true));
    while (told_.size() < 3) {
      arrived_.clear();
      CO_TRY_DO(co_await arrived_.wait());
    }
    co_return ok();
  }
  Task<> beside_run(Task<> script) {
    CO_TRY_DO(co_await sandboxes_.start());
    Scope scope{co_await current_context()};
    scope.spawn("sandboxes", sandboxes_.run());
    scope.spawn("trust", trust_.run());
    auto done = co_await std::move(script);
    (void)co_await scope.cancel_and_join();
    co_return std::move(done);
  }

  TemporaryDirectory directory_;
  SystemWallClock clock_;
  Metrics metrics_;
  io::Reactor reactor_;
  FakeNode node_;
  FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
  std::unique_ptr<store::Store> store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
  Sandboxes sandboxes_{StoreAccess{*store_, nullptr},
                       node_,
                       clock_,
                       metrics_,
                       {.max_sandboxes = 5, .resources = {.max_cpu_millis = 4000}}};
  FakeAuthorities authorities_;
  Trust trust_{{.reactor = reactor_,
                .sandboxes = sandboxes_,
                .authorities = authorities_,
                .guest_socket = [this](const std::string&) { return guest_.path(); },
                .first_pause = std::chrono::milliseconds{1}}};
  std::vector<guest::TrustRequest> told_;
  Event arrived_;
  int failing_ = 0;
};

TEST_F(TrustTest, ComesAndGoesWithTheRulesThatNeedIt) {
  run(come_and_go());
}

TEST_F(TrustTest, WaitsForASandboxThatStandsStill) {
  run(stand_still());
}

TEST_F(TrustTest, IsToldAgainAfterAFailure) {
  run(beside_run(fail_and_try_again()));
}

}  // namespace
}  // namespace atl::control
