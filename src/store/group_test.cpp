// Calls that are done together: one commit, one failure of its own each, one sync.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/fault_point.h"
#include "base/strings.h"
#include "store/room.h"

namespace atl::store {
namespace {

class GroupTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-group-XXXXXX";
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
  std::size_t count() { return store_->list_sandboxes()->size(); }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

Result<> insert(Store& store, const std::string& id, Durability durability = Durability::kQuick) {
  NewSandbox made;
  made.sandbox.id = id;
  made.sandbox.template_name = "default";
  made.event = {.kind = "running", .subject = id, .at = 5};
  return store.insert_sandboxes({made}, std::nullopt, durability);
}

// Parts that insert, and what became of each.
class Inserts {
 public:
  explicit Inserts(Store& store) : store_(store) { results_.reserve(kMax); }
  void add(std::string id, Durability durability = Durability::kQuick) {
    Result<>& result = results_.emplace_back();
    parts_.push_back({.run = [this, &result, id = std::move(id), durability] {
      result = insert(store_, id, durability);
    }});
  }
  std::span<StorePart> parts() { return parts_; }
  const Result<>& result(std::size_t i) const { return results_.at(i); }

 private:
  static constexpr std::size_t kMax = 1000;
  Store& store_;
  std::vector<Result<>> results_;
  std::vector<StorePart> parts_;
};

TEST_F(GroupTest, AllPartsAreCommitted) {
  Inserts inserts{*store_};
  for (int i = 0; i < 100; ++i) {
    inserts.add(concat("rs-", i));
  }
  ASSERT_TRUE(store_->together(inserts.parts()));
  reopen();
  EXPECT_EQ(100U, count());
  EXPECT_EQ(100U, store_->read_outbox(0, 1000)->size());
}

TEST_F(GroupTest, AFailureUndoesItsOwnPartOnly) {
  ASSERT_TRUE(insert(*store_, "rs-taken"));
  Inserts inserts{*store_};
  inserts.add("rs-a");
  inserts.add("rs-taken");
  inserts.add("rs-b");
  ASSERT_TRUE(store_->together(inserts.parts()));
  EXPECT_TRUE(inserts.result(0));
  ASSERT_FALSE(inserts.result(1));
  EXPECT_EQ(Code::kAlreadyExists, inserts.result(1).error().code);
  EXPECT_TRUE(inserts.result(2));
  reopen();
  EXPECT_EQ(3U, count());
  // Its event went with it.
  EXPECT_EQ(3U, store_->read_outbox(0, 1000)->size());
}

TEST_F(GroupTest, APartSeesWhatTheOnesBeforeItDid) {
  Result<> changed = fail(Code::kUnknown, "not run");
  Inserts inserts{*store_};
  inserts.add("rs-a");
  std::vector<StorePart> parts{inserts.parts()[0], {.run = [&] {
                                 changed = store_->change_sandbox(
                                     "rs-a", {SandboxStatus::kStarting, 1},
                                     {.status = SandboxStatus::kRunning, .generation = 1},
                                     {.kind = "running", .subject = "rs-a", .at = 6},
                                     Durability::kQuick);
                               }}};
  ASSERT_TRUE(store_->together(parts));
  EXPECT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(SandboxStatus::kRunning, store_->find_sandbox("rs-a")->status);
}

TEST_F(GroupTest, ItSaysWhichPartsMustBeSynced) {
  Inserts inserts{*store_};
  inserts.add("rs-a");
  inserts.add("rs-b", Durability::kDurable);
  inserts.add("rs-c");
  ASSERT_TRUE(store_->together(inserts.parts()));
  EXPECT_FALSE(inserts.parts()[0].durable);
  EXPECT_TRUE(inserts.parts()[1].durable);
  EXPECT_FALSE(inserts.parts()[2].durable);
  EXPECT_TRUE(store_->sync());
}

TEST_F(GroupTest, AFailedPartNeedsNoSync) {
  ASSERT_TRUE(insert(*store_, "rs-taken"));
  Result<> changed;
  Inserts inserts{*store_};
  inserts.add("rs-taken", Durability::kDurable);
  std::vector<StorePart> parts{inserts.parts()[0], {.run = [&] {
                                 changed = store_->change_sandbox(
                                     "rs-taken", {SandboxStatus::kPaused, 7},
                                     {.status = SandboxStatus::kRunning, .generation = 7},
                                     {.kind = "running", .subject = "rs-taken", .at = 6},
                                     Durability::kDurable);
                               }}};
  ASSERT_TRUE(store_->together(parts));
  EXPECT_FALSE(inserts.result(0));
  EXPECT_FALSE(changed);
  EXPECT_FALSE(parts[0].durable);
  EXPECT_FALSE(parts[1].durable);
}

TEST_F(GroupTest, SyncWithoutAnythingToSync) {
  EXPECT_TRUE(store_->sync());
}

TEST_F(GroupTest, PartsThatOnlyReadNeedNoTransaction) {
  std::size_t seen = 99;
  std::vector<StorePart> parts{{.run = [&] { seen = store_->list_sandboxes()->size(); }}};
  ASSERT_TRUE(store_->together(parts));
  EXPECT_EQ(0U, seen);
}

TEST_F(GroupTest, GroupsAndSingleCallsTakeTurns) {
  for (int i = 0; i < 20; ++i) {
    Inserts inserts{*store_};
    inserts.add(concat("rs-", i, "-a"));
    inserts.add(concat("rs-", i, "-b"), Durability::kDurable);
    ASSERT_TRUE(store_->together(inserts.parts()));
    ASSERT_TRUE(insert(*store_, concat("rs-", i, "-c"), Durability::kDurable));
  }
  EXPECT_EQ(60U, count());
}

// Killed inside a group nothing of it is there; killed after it everything is.
void die_in_group(const std::string& path, bool committed) {
  auto store = *open_sqlite_store(path);
  Inserts inserts{*store};
  inserts.add("rs-a");
  inserts.add("rs-b");
  std::vector<StorePart> parts{inserts.parts().begin(), inserts.parts().end()};
  if (!committed) {
    parts.push_back({.run = [] { ::_exit(3); }});
  }
  (void)store->together(parts);
  ::_exit(4);
}

TEST_F(GroupTest, AKillLeavesAllOrNothing) {
  for (const bool committed : {false, true}) {
    store_.reset();
    const pid_t pid = ::fork();
    if (pid == 0) {
      die_in_group(path(), committed);
    }
    int status = 0;
    ASSERT_EQ(pid, ::waitpid(pid, &status, 0));
    ASSERT_EQ(committed ? 4 : 3, WEXITSTATUS(status));
    reopen();
    EXPECT_EQ(committed ? 2U : 0U, count());
  }
}

}  // namespace
}  // namespace atl::store
