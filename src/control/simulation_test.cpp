// Thousands of lifecycles under seeded random faults: lost answers, refused calls, failing commits,
// dying cells, a node that goes away, and crashes of this process at arbitrary moments.
//
// A crash is: from now on no call reaches the store or the node; then the control object is dropped
// and a new one opens the same file. Afterwards, with the faults gone, it must hold that
//   - every sandbox whose claim was acknowledged, and whose deletion was never asked for, is there,
//   - every sandbox whose deletion was acknowledged is gone,
//   - every `running` row has a running cell with the row's limits, and every cell has a row, when
//     those that were prepared for claims are gone,
//   - no two sandboxes have one name, and no key has made more than one sandbox,
//   - a key that answers, answers with the sandbox that exists for it or was deleted on request,
//   - a sandbox that nobody uses ends after its idle time, and no other does.
#include <random>

#include "base/log.h"
#include "control/fake_node.h"
#include "control/fixture.h"
#include "control/prepared_cells.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

constexpr const char* kTeam = store::kDefaultTeam;

// A store whose calls can fail, before or after the commit.
class FaultyStore final : public store::Store {
 public:
  explicit FaultyStore(store::Store& inner) : inner_(inner) {}
  std::function<FakeNode::Fault()> fault;

  Result<> together(std::span<store::StorePart> parts) override { return inner_.together(parts); }
  Result<> sync() override { return inner_.sync(); }
  Result<> check() override { return inner_.check(); }
  Result<std::vector<store::Team>> list_teams() override { return inner_.list_teams(); }
  Result<> put_api_key(const store::ApiKey& key) override { return inner_.put_api_key(key); }
  Result<std::vector<store::ApiKey>> list_api_keys() override { return inner_.list_api_keys(); }
  Result<> touch_api_key(const std::string& id, UnixMillis at) override {
    return inner_.touch_api_key(id, at);
  }
  Result<> put_template(const store::Template& value) override {
    return inner_.put_template(value);
  }
  Result<std::vector<store::Template>> list_templates() override { return inner_.list_templates(); }
  Result<> remove_template(const std::string& name) override {
    return inner_.remove_template(name);
  }
  Result<> insert_sandboxes(const std::vector<store::NewSandbox>& sandboxes,
                            const std::optional<store::ClaimKey>& key,
                            store::Durability durability) override {
    return judge([&] { return inner_.insert_sandboxes(sandboxes, key, durability); });
  }
  Result<> insert_snapshot(const store::Snapshot& snapshot,
                           const std::optional<store::ClaimKey>& key) override {
    return judge([&] { return inner_.insert_snapshot(snapshot, key); });
  }
  Result<> remove_snapshot(const std::string& id, UnixMillis at) override {
    return judge([&] { return inner_.remove_snapshot(id, at); });
  }
  Result<> note_restore(const std::string& sandbox_id,
                        const store::Relative::Restore& restore) override {
    return judge([&] { return inner_.note_restore(sandbox_id, restore); });
  }
  Result<> put_volume(const store::Volume& volume) override { return inner_.put_volume(volume); }
  Result<> remove_volume(const std::string& id) override { return inner_.remove_volume(id); }
  Result<> insert_volume_snapshot(const store::VolumeSnapshot& snapshot) override {
    return inner_.insert_volume_snapshot(snapshot);
  }
  Result<> remove_volume_snapshot(const std::string& id) override {
    return inner_.remove_volume_snapshot(id);
  }
  Result<std::vector<store::Volume>> list_volumes() override { return inner_.list_volumes(); }
  Result<std::vector<store::VolumeSnapshot>> list_volume_snapshots() override {
    return inner_.list_volume_snapshots();
  }
  Result<> put_record(const store::Record& record, std::int64_t expected_version) override {
    return inner_.put_record(record, expected_version);
  }
  Result<> remove_record(const std::string& kind, const std::string& id) override {
    return inner_.remove_record(kind, id);
  }
  Result<std::vector<store::Record>> list_records(const std::string& kind) override {
    return inner_.list_records(kind);
  }
  Result<std::vector<store::Relative>> list_relatives(const std::string& team_id) override {
    return inner_.list_relatives(team_id);
  }
  Result<std::vector<store::Snapshot>> list_snapshots() override { return inner_.list_snapshots(); }
  Result<std::optional<store::ClaimKey>> find_claim_key(const std::string& team_id,
                                                        const std::string& key,
                                                        UnixMillis now) override {
    if (fault() != FakeNode::Fault::kNone) {
      return fail(Code::kDataLoss, "the disk failed");
    }
    return inner_.find_claim_key(team_id, key, now);
  }
  Result<> remove_claim_key(const std::string& team_id, const std::string& key) override {
    return judge([&] { return inner_.remove_claim_key(team_id, key); });
  }
  Result<> change_claim_answer(const std::string& team_id, const std::string& key,
                               const std::string& answer) override {
    return judge([&] { return inner_.change_claim_answer(team_id, key, answer); });
  }
  Result<> configure_sandbox(const Sandbox& sandbox, const store::Expected& expected,
                             const store::Event& event) override {
    return judge([&] { return inner_.configure_sandbox(sandbox, expected, event); });
  }
  Result<> change_sandbox(const std::string& id, const store::Expected& expected,
                          const store::Transition& transition, const store::Event& event,
                          store::Durability) override {
    return judge([&] {
      return inner_.change_sandbox(id, expected, transition, event, store::Durability::kQuick);
    });
  }
  Result<> remove_sandbox(const std::string& id, const store::Expected& expected,
                          const store::Event& event) override {
    return judge([&] { return inner_.remove_sandbox(id, expected, event); });
  }
  Result<Sandbox> find_sandbox(const std::string& id) override { return inner_.find_sandbox(id); }
  Result<std::vector<Sandbox>> list_sandboxes() override { return inner_.list_sandboxes(); }
  Result<std::vector<store::OutboxEvent>> read_outbox(std::int64_t after,
                                                      std::size_t limit) override {
    return inner_.read_outbox(after, limit);
  }

 private:
  template <class Function>
  Result<> judge(Function function) {
    const auto verdict = fault();
    if (verdict == FakeNode::Fault::kNone) {
      return function();
    }
    if (verdict == FakeNode::Fault::kAnswerLost) {
      (void)function();
    }
    return fail(Code::kDataLoss, "the disk failed");
  }
  store::Store& inner_;
};

class World {
 public:
  explicit World(unsigned seed) : random_(seed), prepares_(seed % 2 == 0) {
    node_.latency = [this] { return Duration{std::chrono::microseconds{random_() % 3000}}; };
    node_.fault = [this](std::string_view) { return choose_fault(node_fault_percent_); };
  }
  ~World() { CHECK(!scope_); }

  // One process life: open, work under faults, crash.
  void live_and_crash() {
    open();
    for (int step = 0; step < 75; ++step) {
      act();
      simulation_.advance_ms(static_cast<std::int64_t>(random_() % 4));
    }
    crash();
  }

  void settle_and_check() {
    node_fault_percent_ = store_fault_percent_ = 0;
    open();
    simulation_.advance_ms(200'000);
    ASSERT_TRUE(sandboxes_->ready());
    end_preparing();
    const auto rows = *store_->list_sandboxes();
    std::set<std::string> names;
    std::set<std::string> keys;
    for (const auto& row : rows) {
      EXPECT_TRUE(row.status == SandboxStatus::kRunning || row.status == SandboxStatus::kFailed ||
                  row.status == SandboxStatus::kPaused)
          << row.id << " is " << status_name(row.status);
      EXPECT_FALSE(removed_.contains(row.id)) << row.id << " came back from deletion";
      if (row.status == SandboxStatus::kRunning) {
        EXPECT_TRUE(node_.cells.contains(row.id) && node_.cells.at(row.id).running)
            << row.id << " has no cell";
        EXPECT_FALSE(node_.cells.at(row.id).frozen) << row.id << " runs and stands still";
        EXPECT_EQ(node_.requests.at(row.id).limits.memory_bytes, row.limits.memory_bytes) << row.id;
      }
      if (row.status == SandboxStatus::kPaused && node_.cells.contains(row.id)) {
        const auto& cell = node_.cells.at(row.id);
        EXPECT_TRUE(!cell.running || cell.frozen) << row.id << " is paused and moves";
        EXPECT_TRUE(cell.upper) << row.id << " has lost its disk";
      }
      EXPECT_FALSE(row.idle_ttl_seconds > 0 && row.status == SandboxStatus::kRunning)
          << row.id << " has outlived its idle time";
      EXPECT_TRUE(row.name.empty() || names.insert(row.name).second) << "two are " << row.name;
      if (const auto key = row.labels.find("key"); key != row.labels.end()) {
        EXPECT_TRUE(keys.insert(key->second).second) << "two were made for key " << key->second;
        const auto kept = store_->find_claim_key(kTeam, key->second, simulation_.clock.now());
        EXPECT_TRUE(kept && *kept && (*kept)->answer == row.id) << key->second;
      }
      EXPECT_EQ(sandboxes_->get(kTeam, row.id)->status, row.status);
    }
    for (const auto& [id, cell] : node_.cells) {
      EXPECT_TRUE(store_->find_sandbox(id)) << id << " runs without a row";
    }
    for (const auto& [key, ids] : answered_) {
      EXPECT_EQ(ids.size(), 1U) << "key " << key << " was answered with different sandboxes";
    }
    for (const auto& id : acknowledged_) {
      EXPECT_TRUE(unwanted_.contains(id) || store_->find_sandbox(id)) << id << " is lost";
    }
    crash();
  }

  std::size_t claims = 0;
  std::size_t acknowledged = 0;
  std::size_t deletions = 0;

 private:
  FakeNode::Fault choose_fault(unsigned percent) {
    if (dead_) {
      return FakeNode::Fault::kUnreached;
    }
    if (random_() % 100 >= percent) {
      return FakeNode::Fault::kNone;
    }
    constexpr FakeNode::Fault kFaults[] = {FakeNode::Fault::kUnreached,
                                           FakeNode::Fault::kAnswerLost, FakeNode::Fault::kRefused};
    return kFaults[random_() % 3];
  }

  void open() {
    dead_ = false;
    store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
    faulty_ = std::make_unique<FaultyStore>(*store_);
    faulty_->fault = [this] { return choose_fault(store_fault_percent_); };
    do {  // what main does: a start that fails is tried again
      sandboxes_ =
          std::make_unique<Sandboxes>(StoreAccess{*faulty_, nullptr}, node_, simulation_.clock,
                                      metrics_, SandboxesOptions{.max_sandboxes = 30});
    } while (!simulation_.run(sandboxes_->start()));
    scope_ = std::make_unique<Scope>(simulation_.loop);
    scope_->spawn("run", sandboxes_->run());
    prepared_ = std::make_unique<PreparedCells>(PreparedCells::Parts{
        simulation_.loop,
        node_,
        *sandboxes_,
        metrics_,
        {.max_idle = prepares_ ? std::size_t{6} : 0, .memory_bytes = 1ULL << 30, .at_once = 2}});
    preparing_ = std::make_unique<Scope>(simulation_.loop);
    preparing_->spawn("prepared", prepared_->run());
  }

  // What waits for a claim goes; a process that was killed does not get to that.
  void end_preparing() { ASSERT_TRUE(simulation_.run(preparing_->cancel_and_join())); }

  void crash() {
    dead_ = true;
    ASSERT_TRUE(simulation_.run(scope_->cancel_and_join()));
    end_preparing();
    preparing_.reset();
    scope_.reset();
    prepared_.reset();
    sandboxes_.reset();
    faulty_.reset();
    store_.reset();
  }

  void act() {
    switch (random_() % 15) {
      case 0:
        if (!node_.cells.empty()) {
          node_.kill(random_cell());
        }
        return;
      case 1:
        if (random_() % 8 == 0) {
          node_.lose(random_() % 2 == 0);
        }
        return;
      case 2:
      case 3:
      case 4:
      case 5:
        if (!node_.cells.empty()) {
          scope_->spawn("remove", remove(random_cell()));
        }
        return;
      case 6:
        if (!node_.cells.empty()) {
          scope_->spawn("update", update(random_cell()));
        }
        return;
      case 12:
      case 13:
        if (!node_.cells.empty()) {
          scope_->spawn("pause", pause(random_cell()));
        }
        return;
      case 14:
        if (!node_.cells.empty()) {
          scope_->spawn("use", use(random_cell()));
        }
        return;
      default:
        ++claims;
        scope_->spawn("claim", claim(random_claim()));
    }
  }

  std::string random_cell() {
    return std::next(node_.cells.begin(),
                     static_cast<std::ptrdiff_t>(random_() % node_.cells.size()))
        ->first;
  }

  // Plain, named, keyed, many, or soon idle.
  ClaimRequest random_claim() {
    ClaimRequest request{.template_name = "default"};
    switch (random_() % 6) {
      case 0:
        request.name = concat("name-", random_() % 4);
        request.get_or_create = random_() % 2 == 0;
        break;
      case 1: {
        const std::string key = concat("key-", random_() % 20);
        request.labels = {{"key", key}};
        request.once = ClaimOnce{
            .key = key, .body_sha256 = std::string(32, 'b'), .remember = [](const ClaimAnswer& a) {
              return a.sandboxes.front().id;
            }};
        break;
      }
      case 2:
        request.count = 1 + random_() % 3;
        request.partial = random_() % 2 == 0;
        break;
      case 3:
        request.idle_ttl_seconds = 1;
        break;
      default:
        break;
    }
    return request;
  }

  Task<> claim(ClaimRequest request) {
    const std::string key = request.once ? request.once->key : "";
    const bool lasts = request.idle_ttl_seconds == 0;
    auto answer = co_await sandboxes_->claim_all(std::move(request));
    if (!answer) {
      co_return ok();
    }
    if (!key.empty()) {
      answered_[key].insert(answer->remembered ? *answer->remembered
                                               : answer->sandboxes.front().id);
    }
    for (const auto& sandbox : answer->sandboxes) {
      ++acknowledged;
      if (lasts) {
        acknowledged_.insert(sandbox.id);
      }
    }
    co_return ok();
  }

  Task<> update(std::string id) {
    SandboxUpdate change;
    change.resources.memory = concat(1 + random_() % 8, "Gi");
    (void)co_await sandboxes_->update(kTeam, id, std::move(change));
    co_return ok();
  }

  Task<> pause(std::string id) {
    const auto memory = random_() % 3 == 0 ? PauseMemory::kDrop : PauseMemory::kKeep;
    (void)co_await sandboxes_->pause(kTeam, id, memory);
    co_return ok();
  }

  Task<> use(std::string id) {
    (void)co_await sandboxes_->running(kTeam, id);
    co_return ok();
  }

  Task<> remove(std::string id) {
    unwanted_.insert(id);  // from here on it may be gone at any time
    auto removed = co_await sandboxes_->remove(kTeam, id);
    if (removed) {
      ++deletions;
      removed_.insert(id);
    }
    co_return ok();
  }

  std::mt19937 random_;
  bool prepares_;
  unsigned node_fault_percent_ = 4;
  unsigned store_fault_percent_ = 2;
  bool dead_ = false;
  TemporaryDirectory directory_;
  Simulation simulation_;
  Metrics metrics_;
  FakeNode node_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<FaultyStore> faulty_;
  std::unique_ptr<Sandboxes> sandboxes_;
  std::unique_ptr<Scope> scope_;
  std::unique_ptr<PreparedCells> prepared_;
  std::unique_ptr<Scope> preparing_;
  std::set<std::string> acknowledged_;  // claims
  std::set<std::string> unwanted_;      // deletion asked for, also before the claim was answered
  std::set<std::string> removed_;       // deletion acknowledged
  std::map<std::string, std::set<std::string>> answered_;  // by key
};

TEST(SimulationTest, NoAcknowledgedSandboxIsLostAndNoCellIsUnaccounted) {
  log_configure(LogLevel::kError, LogFormat::kText, "simulation");
  std::size_t claims = 0;
  std::size_t acknowledged = 0;
  std::size_t deletions = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world{seed};
    for (int life = 0; life < 12; ++life) {
      world.live_and_crash();
    }
    world.settle_and_check();
    claims += world.claims;
    acknowledged += world.acknowledged;
    deletions += world.deletions;
  }
  RecordProperty("claims", static_cast<int>(claims));
  // The faults must leave enough through for the checks to mean something.
  EXPECT_GT(claims, 3000U);
  EXPECT_GT(acknowledged, claims / 4);
  EXPECT_GT(deletions, 300U);
  log_configure(LogLevel::kInfo, LogFormat::kText, "control_test");
}

}  // namespace
}  // namespace atl::control
