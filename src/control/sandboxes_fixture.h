// Sandboxes on a manual loop with a fake node and a real store, for tests.
#pragma once

#include "control/fake_node.h"
#include "control/fixture.h"
#include "control/sandboxes.h"

namespace atl::control {

inline constexpr const char* kTeam = store::kDefaultTeam;

class SandboxesTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void TearDown() override { close(); }

  void open() {
    store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
    sandboxes_ = std::make_unique<Sandboxes>(StoreAccess{*store_, nullptr}, node_,
                                             simulation_.clock, metrics_, options_);
    const auto started = simulation_.run(sandboxes_->start());
    ASSERT_TRUE(started) << started.error().message;
    scope_ = std::make_unique<Scope>(simulation_.loop);
    scope_->spawn("run", sandboxes_->run());
    simulation_.advance_ms(1);
  }
  void close() {
    if (scope_) {
      EXPECT_TRUE(simulation_.run(scope_->cancel_and_join()));
      scope_.reset();
    }
    sandboxes_.reset();
    store_.reset();
  }
  Result<Sandbox> claim(ClaimRequest request = {}) {
    if (request.template_name.empty()) {
      request.template_name = "default";
    }
    return simulation_.run(sandboxes_->claim(std::move(request)));
  }
  SandboxStatus status(const std::string& id) { return sandboxes_->get(kTeam, id)->status; }

  TemporaryDirectory directory_;
  Simulation simulation_;
  FakeNode node_;
  Metrics metrics_;
  SandboxesOptions options_{.max_sandboxes = 5, .resources = {.max_cpu_millis = 4000}};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Sandboxes> sandboxes_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace atl::control
