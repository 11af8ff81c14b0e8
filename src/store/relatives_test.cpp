// Families of more than one team.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store {
namespace {

class RelativesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-relatives-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    store_ = *open_sqlite_store(directory_ + "/atoll.db");
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  void add_team(const std::string& id) {
    const auto database = *Database::open(directory_ + "/atoll.db");
    auto row = *database->prepare("INSERT INTO teams VALUES (?, 'Other', 1)");
    ASSERT_TRUE(row->bind(id).run());
  }
  // Each is the child of the one before; all but the last are deleted.
  void bury_a_line(const std::string& team_id, const std::string& prefix, int count) {
    std::vector<NewSandbox> line;
    for (int i = 0; i <= count; ++i) {
      Sandbox sandbox;
      sandbox.id = prefix + std::to_string(i);
      sandbox.team_id = team_id;
      line.push_back({sandbox, Event{.kind = "created", .subject = sandbox.id}});
      if (i > 0) {
        line.back().descent = Descent{prefix + std::to_string(i - 1), "fork"};
      }
    }
    ASSERT_TRUE(store_->insert_sandboxes(line, std::nullopt));
    for (int i = 0; i < count; ++i) {
      const std::string id = prefix + std::to_string(i);
      ASSERT_TRUE(store_->remove_sandbox(id, {SandboxStatus::kStarting, 1},
                                         Event{.kind = "deleted", .subject = id}));
    }
  }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(RelativesTest, DeletionsOfOneTeamCostNoOtherItsAncestors) {
  add_team("other");
  bury_a_line("other", "rs-old-", 3);
  bury_a_line(kDefaultTeam, "rs-", static_cast<int>(kMaxDeletedAncestors) + 5);
  EXPECT_EQ(store_->list_relatives("other")->size(), 4U);
  EXPECT_EQ(store_->list_relatives(kDefaultTeam)->size(),
            static_cast<std::size_t>(kMaxDeletedAncestors) + 1);
}

}  // namespace
}  // namespace atl::store
