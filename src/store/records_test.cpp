// Documents of the rooms above.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "store/room.h"

namespace atl::store {
namespace {

class RecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-records-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    store_ = *open_sqlite_store(directory_ + "/atoll.db");
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(RecordsTest, AreReplacedOnlyWhenTheyAreAsExpected) {
  Record record{.kind = "source", .id = "a", .body = "{\"x\":1}"};
  ASSERT_TRUE(store_->put_record(record, 0));
  EXPECT_EQ(store_->put_record(record, 0).error().reason, "changed");
  record.version = 2;
  record.body = "{}";
  ASSERT_TRUE(store_->put_record(record, 1));
  EXPECT_EQ(store_->put_record(record, 1).error().code, Code::kAborted);
  EXPECT_EQ(*store_->list_records("source"), std::vector{record});
  EXPECT_TRUE(store_->list_records("other")->empty());
  ASSERT_TRUE(store_->remove_record("source", "a"));
  ASSERT_TRUE(store_->remove_record("source", "a"));
  EXPECT_TRUE(store_->list_records("source")->empty());
}

TEST_F(RecordsTest, OfASandboxComeAndGoWithIt) {
  Sandbox sandbox;
  sandbox.id = "rs-1";
  const Record owned{.kind = "policy", .id = "rs-1", .owner_id = "rs-1"};
  const Record alone{.kind = "policy", .id = "template"};
  ASSERT_TRUE(store_->put_record(alone, 0));
  ASSERT_TRUE(store_->insert_sandboxes(
      {{.sandbox = sandbox, .event = {.kind = "created"}, .records = {owned}}}, std::nullopt));
  EXPECT_EQ(store_->list_records("policy")->size(), 2U);
  ASSERT_TRUE(store_->remove_sandbox("rs-1", {SandboxStatus::kStarting, 1}, {.kind = "deleted"}));
  EXPECT_EQ(*store_->list_records("policy"), std::vector{alone});
}

TEST_F(RecordsTest, ThatAreTakenKeepASandboxOut) {
  Sandbox sandbox;
  sandbox.id = "rs-1";
  const Record taken{.kind = "policy", .id = "rs-1"};
  ASSERT_TRUE(store_->put_record(taken, 0));
  EXPECT_FALSE(store_->insert_sandboxes(
      {{.sandbox = sandbox, .event = {.kind = "created"}, .records = {taken}}}, std::nullopt));
  EXPECT_TRUE(store_->list_sandboxes()->empty());
}

}  // namespace
}  // namespace atl::store
