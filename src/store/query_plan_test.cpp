// History must not slow anything down: no statement of the request path may walk through a table
// that grows. Every statement that the store runs is seen, whatever it is.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <set>

#include "base/strings.h"
#include "store/room.h"

namespace atl::store {
namespace {

std::set<std::string>* seen = nullptr;

int note_statement(unsigned, void*, void* statement, void*) {
  if (seen != nullptr) {
    seen->insert(sqlite3_sql(static_cast<sqlite3_stmt*>(statement)));
  }
  return 0;
}

int watch_connection(sqlite3* database, const char**, const sqlite3_api_routines*) {
  return sqlite3_trace_v2(database, SQLITE_TRACE_STMT, note_statement, nullptr);
}

// "SCAN sandboxes; SEARCH records USING INDEX ..."
std::string plan_of(sqlite3* database, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const std::string question = concat("EXPLAIN QUERY PLAN ", sql);
  if (sqlite3_prepare_v2(database, question.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return {};  // BEGIN and the like
  }
  std::string plan;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    plan += concat(reinterpret_cast<const char*>(sqlite3_column_text(statement, 3)), "; ");
  }
  sqlite3_finalize(statement);
  return plan;
}

class QueryPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-plan-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(watch_connection));
    store_ = *open_sqlite_store(path());
  }
  void TearDown() override {
    seen = nullptr;
    store_.reset();
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(watch_connection));
    std::filesystem::remove_all(directory_);
  }
  std::string path() const { return directory_ + "/atoll.db"; }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

NewSandbox sample(const std::string& id) {
  NewSandbox made;
  made.sandbox.id = id;
  made.sandbox.name = concat("name-", id);
  made.sandbox.template_name = "default";
  made.event = {.kind = "running", .subject = id, .at = 5};
  made.descent = Descent{.parent_id = "rs-parent", .cause = "fork"};
  made.records.push_back({.kind = "policy", .id = id, .owner_id = id, .version = 1, .body = "{}"});
  return made;
}

// What claims, commands, pauses and deletions call.
void use(Store& store) {
  const Event event{.kind = "x", .subject = "rs-a", .at = 6};
  const ClaimKey key{.team_id = kDefaultTeam,
                     .key = "k",
                     .body_sha256 = std::string(32, 'x'),
                     .answer = "{}",
                     .created_at = 5};
  EXPECT_TRUE(store.insert_sandboxes({sample("rs-a")}, key, Durability::kQuick));
  EXPECT_TRUE(store.find_claim_key(kDefaultTeam, "k", 6));
  EXPECT_TRUE(store.change_claim_answer(kDefaultTeam, "k", "{}"));
  EXPECT_TRUE(store.remove_claim_key(kDefaultTeam, "k"));
  EXPECT_TRUE(store.find_sandbox("rs-a"));
  EXPECT_TRUE(store.change_sandbox("rs-a", {SandboxStatus::kStarting, 1},
                                   {.status = SandboxStatus::kRunning, .generation = 1}, event,
                                   Durability::kQuick));
  auto changed = *store.find_sandbox("rs-a");
  EXPECT_TRUE(store.configure_sandbox(changed, {SandboxStatus::kRunning, 1}, event));
  const Record record{.kind = "service", .id = "rs-a", .owner_id = "rs-a", .version = 1};
  EXPECT_TRUE(store.put_record(record, 0));
  EXPECT_TRUE(store.put_record(record, 1));
  EXPECT_TRUE(store.remove_record("service", "rs-a"));
  EXPECT_TRUE(store.touch_api_key("none", 5));
  EXPECT_TRUE(store.read_outbox(0, 10));
  EXPECT_TRUE(store.remove_sandbox("rs-a", {SandboxStatus::kRunning, 1}, event));
}

TEST_F(QueryPlanTest, NothingOnTheRequestPathScans) {
  std::set<std::string> statements;
  seen = &statements;
  use(*store_);
  seen = nullptr;
  EXPECT_GT(statements.size(), 15U);
  sqlite3* database = nullptr;
  ASSERT_EQ(SQLITE_OK, sqlite3_open_v2(path().c_str(), &database, SQLITE_OPEN_READONLY, nullptr));
  for (const auto& sql : statements) {
    const auto plan = plan_of(database, sql);
    EXPECT_EQ(std::string::npos, plan.find("SCAN")) << sql << "\n" << plan;
  }
  sqlite3_close(database);
}

}  // namespace
}  // namespace atl::store
