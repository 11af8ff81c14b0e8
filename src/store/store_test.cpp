// The conformance suite of Store: what every engine must do. Today one engine runs it.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fd.h"
#include "base/random.h"
#include "store/room.h"

namespace atl::store {
namespace {

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-store-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  void reopen() {
    store_.reset();
    auto opened = open_sqlite_store(path());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  std::string path() const { return directory_ + "/atoll.db"; }
  Code change(const std::string& id, Expected expected, Transition transition,
              Durability durability = Durability::kQuick) {
    auto result = store_->change_sandbox(id, expected, transition, event("change", id), durability);
    return result ? Code{} : result.error().code;
  }
  static Event event(std::string kind, std::string subject) {
    return Event{.kind = std::move(kind), .subject = std::move(subject), .at = 5};
  }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

Sandbox sample(std::string id) {
  Sandbox sandbox;
  sandbox.id = std::move(id);
  sandbox.template_name = "default";
  sandbox.layers = {"top", "base"};
  sandbox.env = {{"A", "1"}, {"quote\"", "line\nbreak ü"}};
  sandbox.limits = {
      .memory_bytes = 1ULL << 31, .cpu_millis = 1500, .process_count = 7, .disk_bytes = 1ULL << 40};
  sandbox.ttl_seconds = 60;
  sandbox.expires_at = 60'000;
  sandbox.idle_ttl_seconds = 30;
  sandbox.ephemeral_tmp = true;
  sandbox.name = "name of " + sandbox.id;
  sandbox.labels = {{"k", "v"}};
  sandbox.claimed_at = 1;
  sandbox.created_at = 2;
  sandbox.updated_at = 3;
  return sandbox;
}

constexpr Expected kStarting{SandboxStatus::kStarting, 1};
constexpr Expected kRunning{SandboxStatus::kRunning, 1};

TEST_F(StoreTest, HasOneDefaultTeam) {
  const auto teams = store_->list_teams();
  ASSERT_TRUE(teams);
  ASSERT_EQ(teams->size(), 1U);
  EXPECT_EQ(teams->front().id, kDefaultTeam);
  EXPECT_TRUE(store_->check());
}

TEST_F(StoreTest, SandboxSurvivesReopenUnchanged) {
  const Sandbox sandbox = sample("rs-a");
  ASSERT_TRUE(store_->insert_sandbox(sandbox, event("created", "rs-a")));
  reopen();
  const auto found = store_->find_sandbox("rs-a");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, sandbox);
  const auto all = store_->list_sandboxes();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 1U);
}

TEST_F(StoreTest, ASnapshotSurvivesReopeningWithItsKeyAndItsPlaceInTheTree) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  const Snapshot snapshot{.id = "snap-a",
                          .sandbox_id = "rs-a",
                          .name = "n",
                          .template_name = "default",
                          .layers = {"base"},
                          .env = {{"A", "1"}},
                          .limits = {.memory_bytes = 5},
                          .ephemeral_tmp = true,
                          .created_at = 7,
                          .expires_at = 8};
  const ClaimKey key{.key = "k", .body_sha256 = "b", .answer = "snap-a", .created_at = 7};
  ASSERT_TRUE(store_->insert_snapshot(snapshot, key));
  EXPECT_FALSE(store_->insert_snapshot({.id = "snap-b"}, key)) << "nothing without its key";
  ASSERT_TRUE(store_->note_restore("rs-a", {"snap-a", 9}));
  reopen();
  EXPECT_EQ(*store_->list_snapshots(), std::vector<Snapshot>{snapshot});
  EXPECT_EQ(store_->find_claim_key(kDefaultTeam, "k", 8)->value().answer, "snap-a");
  const auto relatives = store_->list_relatives(kDefaultTeam);
  ASSERT_TRUE(relatives);
  ASSERT_EQ(relatives->size(), 2U);
  EXPECT_EQ((*relatives)[0].restores, (std::vector<Relative::Restore>{{"snap-a", 9}}));
  EXPECT_EQ((*relatives)[1].parent_id, "rs-a");
  EXPECT_EQ((*relatives)[1].kind, Relative::Kind::kSnapshot);
  ASSERT_TRUE(store_->remove_snapshot("snap-a", 10));
  EXPECT_TRUE(store_->list_snapshots()->empty());
  EXPECT_EQ(store_->list_relatives(kDefaultTeam)->size(), 1U);
  EXPECT_TRUE(store_->list_relatives("other")->empty());
}

TEST_F(StoreTest, DeletedAncestorsAreBoundedAndGoWithTheirLastDescendant) {
  constexpr int kBeyond = 20;
  constexpr int kCount = static_cast<int>(kMaxDeletedAncestors) + kBeyond;
  const auto id = [](int i) { return "rs-" + std::to_string(i); };
  std::vector<NewSandbox> chain;
  for (int i = 0; i <= kCount; ++i) {
    Sandbox sandbox;
    sandbox.id = id(i);
    sandbox.created_at = i;
    chain.push_back({sandbox, event("created", sandbox.id)});
    if (i > 0) {
      chain.back().descent = Descent{id(i - 1), "fork"};
    }
  }
  ASSERT_TRUE(store_->insert_sandboxes(chain, std::nullopt));
  EXPECT_EQ(store_->list_relatives(kDefaultTeam)->size(), chain.size());
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(store_->remove_sandbox(id(i), kStarting, event("deleted", id(i))));
  }
  const auto left = store_->list_relatives(kDefaultTeam);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->size(), static_cast<std::size_t>(kMaxDeletedAncestors) + 1);
  EXPECT_EQ(left->front().id, id(kBeyond)) << "the oldest are forgotten first";
  ASSERT_TRUE(store_->remove_sandbox(id(kCount), kStarting, event("deleted", id(kCount))));
  EXPECT_TRUE(store_->list_relatives(kDefaultTeam)->empty());
}

TEST_F(StoreTest, IdsAreUniqueAndARefusedInsertLeavesNoEvent) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  const auto again = store_->insert_sandbox(sample("rs-a"), event("created", "rs-a"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_EQ(store_->read_outbox(0, 10)->size(), 1U);
}

TEST_F(StoreTest, UnknownTeamIsRefused) {
  Sandbox sandbox = sample("rs-a");
  sandbox.team_id = "nobody";
  EXPECT_FALSE(store_->insert_sandbox(sandbox, event("created", "rs-a")));
  EXPECT_TRUE(store_->list_sandboxes()->empty());
}

TEST_F(StoreTest, ChangeAppliesOnlyToTheExpectedState) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  const Transition to_running{.status = SandboxStatus::kRunning, .generation = 1, .updated_at = 9};
  EXPECT_EQ(change("rs-a", kRunning, to_running), Code::kAborted);
  EXPECT_EQ(change("rs-a", {SandboxStatus::kStarting, 2}, to_running), Code::kAborted);
  EXPECT_EQ(change("rs-b", kStarting, to_running), Code::kNotFound);
  EXPECT_EQ(store_->find_sandbox("rs-a")->status, SandboxStatus::kStarting);
  EXPECT_EQ(change("rs-a", kStarting, to_running), Code{});
  EXPECT_EQ(change("rs-a", kStarting, to_running), Code::kAborted) << "the second of two must lose";
  const auto found = store_->find_sandbox("rs-a");
  EXPECT_EQ(found->status, SandboxStatus::kRunning);
  EXPECT_EQ(found->updated_at, 9);
}

TEST_F(StoreTest, RemoveIsACompareAndSetToo) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  EXPECT_EQ(store_->remove_sandbox("rs-a", kRunning, event("gone", "rs-a")).error().code,
            Code::kAborted);
  ASSERT_TRUE(store_->remove_sandbox("rs-a", kStarting, event("gone", "rs-a")));
  EXPECT_EQ(store_->find_sandbox("rs-a").error().code, Code::kNotFound);
  EXPECT_EQ(store_->remove_sandbox("rs-a", kStarting, event("gone", "rs-a")).error().code,
            Code::kNotFound);
}

TEST_F(StoreTest, DurableChangeSurvivesReopenAndTheNextOneIsQuickAgain) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  ASSERT_EQ(change("rs-a", kStarting, {.status = SandboxStatus::kTerminating, .generation = 1},
                   Durability::kDurable),
            Code{});
  ASSERT_EQ(change("rs-a", {SandboxStatus::kTerminating, 1},
                   {.status = SandboxStatus::kFailed, .generation = 1, .failure = "why"}),
            Code{});
  reopen();
  EXPECT_EQ(store_->find_sandbox("rs-a")->status, SandboxStatus::kFailed);
  EXPECT_EQ(store_->find_sandbox("rs-a")->failure, "why");
}

TEST_F(StoreTest, EventsAreInOrderAndOnlyOfWhatHappened) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  EXPECT_EQ(change("rs-a", kRunning, {.status = SandboxStatus::kFailed}), Code::kAborted);
  EXPECT_EQ(change("rs-a", kStarting, {.status = SandboxStatus::kRunning}), Code{});
  ASSERT_TRUE(store_->remove_sandbox("rs-a", kRunning, event("gone", "rs-a")));
  const auto events = store_->read_outbox(0, 10);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 3U);
  EXPECT_EQ((*events)[0].event.kind, "created");
  EXPECT_EQ((*events)[1].event.kind, "change");
  EXPECT_EQ((*events)[2].event.kind, "gone");
  const auto rest = store_->read_outbox((*events)[0].sequence, 1);
  ASSERT_EQ(rest->size(), 1U);
  EXPECT_EQ(rest->front().sequence, (*events)[1].sequence);
}

TEST_F(StoreTest, ConfigureWritesWhatTheOwnerMayChangeAndIsACompareAndSet) {
  Sandbox sandbox = sample("rs-a");
  ASSERT_TRUE(store_->insert_sandbox(sandbox, event("created", "rs-a")));
  sandbox.env = {{"B", "2"}};
  sandbox.labels.clear();
  sandbox.limits.memory_bytes = 1ULL << 29;
  sandbox.auto_resume = false;
  sandbox.ttl_seconds = 0;
  sandbox.expires_at.reset();
  sandbox.hard_ttl_seconds = 7;
  sandbox.hard_expires_at = 7'000;
  sandbox.idle_ttl_seconds = 9;
  sandbox.updated_at = 11;
  EXPECT_EQ(store_->configure_sandbox(sandbox, kRunning, event("e", "rs-a")).error().code,
            Code::kAborted);
  ASSERT_TRUE(store_->configure_sandbox(sandbox, kStarting, event("configured", "rs-a")));
  reopen();
  EXPECT_EQ(*store_->find_sandbox("rs-a"), sandbox);
}

TEST_F(StoreTest, NamesAreUniquePerTeamAndFreeAfterRemoval) {
  Sandbox first = sample("rs-a");
  Sandbox second = sample("rs-b");
  first.name = second.name = "web";
  ASSERT_TRUE(store_->insert_sandbox(first, event("created", "rs-a")));
  EXPECT_EQ(store_->insert_sandbox(second, event("created", "rs-b")).error().code,
            Code::kAlreadyExists);
  ASSERT_TRUE(store_->remove_sandbox("rs-a", kStarting, event("gone", "rs-a")));
  EXPECT_TRUE(store_->insert_sandbox(second, event("created", "rs-b")));
  first.name = "";
  Sandbox nameless = sample("rs-c");
  nameless.name = "";
  EXPECT_TRUE(store_->insert_sandbox(first, event("created", "rs-a")));
  EXPECT_TRUE(store_->insert_sandbox(nameless, event("created", "rs-c")));
}

TEST_F(StoreTest, SandboxesAndTheirKeyAreOneTransaction) {
  const ClaimKey key{.key = "k", .body_sha256 = sha256("b"), .answer = "{}", .created_at = 1000};
  const NewSandbox one{sample("rs-a"), event("created", "rs-a")};
  const NewSandbox two{sample("rs-b"), event("created", "rs-b")};
  ASSERT_TRUE(store_->insert_sandboxes({one, two}, key));
  reopen();
  EXPECT_EQ(*store_->find_claim_key(kDefaultTeam, "k", 2000), key);
  EXPECT_EQ(*store_->find_claim_key("other", "k", 2000), std::nullopt);
  const NewSandbox three{sample("rs-c"), event("created", "rs-c")};
  EXPECT_EQ(store_->insert_sandboxes({three}, key).error().code, Code::kAlreadyExists);
  EXPECT_EQ(store_->list_sandboxes()->size(), 2U) << "a used key leaves nothing of the claim";
  ClaimKey other = key;
  other.key = "l";
  EXPECT_FALSE(store_->insert_sandboxes({three, one}, other));
  EXPECT_EQ(*store_->find_claim_key(kDefaultTeam, "l", 2000), std::nullopt);
  EXPECT_EQ(store_->list_sandboxes()->size(), 2U) << "all or nothing";
}

TEST_F(StoreTest, ClaimKeysAreForgottenAfterADay) {
  ClaimKey key{.key = "k", .body_sha256 = sha256("b"), .answer = "1", .created_at = 1000};
  ASSERT_TRUE(store_->insert_sandboxes({}, key));
  EXPECT_TRUE(*store_->find_claim_key(kDefaultTeam, "k", 999 + kClaimKeyMs));
  EXPECT_FALSE(*store_->find_claim_key(kDefaultTeam, "k", 1000 + kClaimKeyMs));
  key.created_at = 1000 + kClaimKeyMs;
  key.answer = "2";
  ASSERT_TRUE(store_->insert_sandboxes({}, key));
  EXPECT_EQ((*store_->find_claim_key(kDefaultTeam, "k", key.created_at))->answer, "2");
  ASSERT_TRUE(store_->remove_claim_key(kDefaultTeam, "k"));
  EXPECT_FALSE(*store_->find_claim_key(kDefaultTeam, "k", key.created_at));
}

TEST_F(StoreTest, ApiKeysKeepHashRolesAndExpiry) {
  ApiKey key{.id = "key-1",
             .name = "admin",
             .key_sha256 = sha256("secret"),
             .roles = {"admin"},
             .created_at = 4,
             .expires_at = 77};
  ASSERT_TRUE(store_->put_api_key(key));
  ASSERT_TRUE(store_->touch_api_key("key-1", 50));
  key.last_used_at = 50;
  reopen();
  ASSERT_EQ(store_->list_api_keys()->size(), 1U);
  EXPECT_EQ(store_->list_api_keys()->front(), key);
  key.active = false;
  ASSERT_TRUE(store_->put_api_key(key));
  EXPECT_EQ(store_->list_api_keys()->front(), key);
  ApiKey twin = key;
  twin.id = "key-2";
  EXPECT_EQ(store_->put_api_key(twin).error().code, Code::kAlreadyExists);
  twin.key_sha256 = "short";
  EXPECT_FALSE(store_->put_api_key(twin));
}

TEST_F(StoreTest, TemplatesAreReplacedByName) {
  Template value{.name = "default", .alias = "base", .layers = {"one"}};
  ASSERT_TRUE(store_->put_template(value));
  value.layers = {"two", "one"};
  ASSERT_TRUE(store_->put_template(value));
  ASSERT_EQ(store_->list_templates()->size(), 1U);
  EXPECT_EQ(store_->list_templates()->front(), value);
  value.builtin = false;
  value.team_id = "team";
  value.state = TemplateState::kFailed;
  value.failure = "why";
  value.config = R"({"user":"u"})";
  value.created_at = 7;
  ASSERT_TRUE(store_->put_template(value));
  EXPECT_EQ(store_->list_templates()->front(), value);
  ASSERT_TRUE(store_->remove_template("default"));
  ASSERT_TRUE(store_->remove_template("default"));
  EXPECT_TRUE(store_->list_templates()->empty());
}

TEST_F(StoreTest, ConcurrentCompareAndSetHasOneWinner) {
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  std::atomic<int> winners = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([this, &winners] {
        if (change("rs-a", kStarting, {.status = SandboxStatus::kRunning}) == Code{}) {
          ++winners;
        }
      });
    }
  }
  EXPECT_EQ(winners, 1);
}

TEST_F(StoreTest, FileIsPrivateAndASecondOpenMigratesNothing) {
  struct stat status{};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_TRUE(store_->insert_sandbox(sample("rs-a"), event("created", "rs-a")));
  for (int i = 0; i < 3; ++i) {
    reopen();
  }
  EXPECT_EQ(store_->list_sandboxes()->size(), 1U);
  EXPECT_EQ(store_->list_teams()->size(), 1U);
}

TEST_F(StoreTest, AFileThatIsNoDatabaseIsRefused) {
  const std::string other = directory_ + "/other.db";
  std::ofstream{other} << std::string(4096, 'x');
  const auto opened = open_sqlite_store(other);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
  EXPECT_NE(opened.error().message.find(other), std::string::npos);
}

TEST_F(StoreTest, ADamagedPageIsRefusedAndNothingIsChanged) {
  for (int i = 0; i < 200; ++i) {
    const std::string id = "rs-" + std::to_string(i);
    ASSERT_TRUE(store_->insert_sandbox(sample(id), event("created", id)));
  }
  store_.reset();
  const auto before = read_file(path());
  ASSERT_TRUE(before);
  std::string damaged = *before;
  damaged.replace(damaged.size() / 2 & ~std::size_t{4095}, 4096, std::string(4096, '\x5a'));
  std::ofstream{path(), std::ios::binary} << damaged;
  const auto opened = open_sqlite_store(path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
  EXPECT_NE(opened.error().message.find("Put back a copy"), std::string::npos)
      << opened.error().message;
  EXPECT_EQ(*read_file(path()), damaged);
  std::ofstream{path(), std::ios::binary} << *before;
  EXPECT_EQ((*open_sqlite_store(path()))->list_sandboxes()->size(), 200U);
}

TEST_F(StoreTest, ADatabaseThatIsGoneIsNotReplacedByANewOne) {
  store_.reset();
  ASSERT_EQ(::rename(path().c_str(), (path() + ".away").c_str()), 0);
  auto opened = open_sqlite_store(path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().reason, "database_lost");
  EXPECT_NE(::access(path().c_str(), F_OK), 0) << "nothing was made";
  std::ofstream{path()};
  EXPECT_FALSE(open_sqlite_store(path())) << "an empty file is one that was lost";
  ASSERT_EQ(::unlink((path() + ".kept").c_str()), 0);
  EXPECT_TRUE(open_sqlite_store(path())) << "whoever says so begins with nothing";
}

}  // namespace
}  // namespace atl::store
