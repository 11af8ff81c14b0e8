// Sandboxes with prepared cells on a manual loop, for tests.
#pragma once

#include "control/limits.h"
#include "control/prepared_cells.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {

inline constexpr std::size_t kMin = kDefaultMinIdle;

class PreparedTest : public SandboxesTest {
 protected:
  void SetUp() override {
    options_.max_sandboxes = 500;
    start();
  }
  void TearDown() override { stop(); }

  void start() {
    open();
    prepared_ = std::make_unique<PreparedCells>(
        PreparedCells::Parts{simulation_.loop, node_, *sandboxes_, metrics_, pool_});
    working_ = std::make_unique<Scope>(simulation_.loop);
    working_->spawn("prepared", prepared_->run());
    settle();
  }
  void stop() {
    if (working_) {
      EXPECT_TRUE(simulation_.run(working_->cancel_and_join()));
    }
    working_.reset();
    prepared_.reset();
    close();
  }
  void restart() {
    stop();
    start();
  }
  void settle() { simulation_.advance_ms(300); }
  std::size_t idle(std::string_view name = "default") const { return prepared_->idle_of(name); }
  std::set<std::string> cells() const {
    std::set<std::string> ids;
    for (const auto& [id, cell] : node_.cells) {
      ids.insert(id);
    }
    return ids;
  }
  void put_template(std::string name, std::vector<std::string> layers, std::string spec = "{}",
                    std::string team = kTeam) {
    Template value{.name = std::move(name), .layers = std::move(layers)};
    value.builtin = false;
    value.team_id = std::move(team);
    value.spec = std::move(spec);
    value.state = TemplateState::kReady;
    ASSERT_TRUE(simulation_.run(
        sandboxes_->changeable_templates().put(StoreAccess{*store_, nullptr}, std::move(value))));
    settle();
  }
  void refuse(std::string operation) {
    node_.fault = [operation](std::string_view asked) {
      return asked == operation ? FakeNode::Fault::kRefused : FakeNode::Fault::kNone;
    };
  }
  std::uint64_t counted(std::string_view name) { return metrics_.counter(name, "").value(); }

  PreparedOptions pool_{.max_idle = 50, .memory_bytes = 1ULL << 30, .at_once = 2};
  std::unique_ptr<PreparedCells> prepared_;
  std::unique_ptr<Scope> working_;
};

}  // namespace atl::control
