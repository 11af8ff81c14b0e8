// Flows, totals and answered questions in their own file.
#include "store/flow_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace atl::store {
namespace {

class FlowFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-flows-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    open();
  }
  void TearDown() override {
    file_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open(FlowRetention retention = {}) {
    file_.reset();
    auto opened = open_sqlite_flow_file(directory_ + "/flows.db", retention);
    ASSERT_TRUE(opened) << opened.error().message;
    file_ = *std::move(opened);
  }
  static FlowRow row(std::string id, std::string sandbox = "rs-1", std::string outcome = "open") {
    return {.id = std::move(id),
            .sandbox_id = std::move(sandbox),
            .team_id = "default",
            .began_at = 1000,
            .kind = "flow",
            .protocol = "tls",
            .name = "api.example.com",
            .outcome = std::move(outcome),
            .rule = "mode",
            .context_id = "c-1",
            .detail = "{}"};
  }
  std::string ids(const FlowFilter& filter, std::int64_t before = 0) {
    std::string text;
    const auto rows = file_->newest(filter, before, 100);
    EXPECT_TRUE(rows);
    for (const auto& found : *rows) {
      text += found.id + " ";
    }
    return text;
  }

  std::string directory_;
  std::unique_ptr<FlowFile> file_;
};

TEST_F(FlowFileTest, AFlowIsWrittenWhenItBeginsAndReplacedWhenItEnds) {
  ASSERT_TRUE(file_->write({.flows = {row("a"), row("b")}}));
  auto ended = row("a", "rs-1", "allowed");
  ended.detail = R"({"bytes_in":5})";
  ASSERT_TRUE(file_->write({.flows = {ended}}));
  EXPECT_EQ(ids({}), "b a ");
  const auto found = file_->find("default", "a");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->outcome, "allowed");
  EXPECT_EQ((*found)->detail, R"({"bytes_in":5})");
  EXPECT_FALSE(*file_->find("other", "a"));
  // The end is the last thing that was written.
  const auto after = file_->written_after({}, 0, 100);
  ASSERT_EQ(after->size(), 2U);
  EXPECT_EQ(after->at(0).id, "b");
  EXPECT_EQ(after->at(1).id, "a");
  EXPECT_TRUE(file_->written_after({}, after->at(1).revision, 100)->empty());
  EXPECT_EQ(file_->last_revision(), after->at(1).revision);
}

TEST_F(FlowFileTest, FiltersAndPages) {
  auto dns = row("d", "rs-2", "denied");
  dns.kind = "dns";
  dns.name = "example.com";
  dns.began_at = 5000;
  dns.rule = "no-dns";
  ASSERT_TRUE(file_->write({.flows = {row("a"), row("b"), row("c", "rs-2"), dns}}));
  EXPECT_EQ(ids({.sandbox_id = "rs-1"}), "b a ");
  EXPECT_EQ(ids({.sandbox_id = "rs-2"}), "d c ");
  EXPECT_EQ(ids({.team_id = "other"}), "");
  EXPECT_EQ(ids({.kind = "dns"}), "d ");
  EXPECT_EQ(ids({.outcome = "denied"}), "d ");
  EXPECT_EQ(ids({.rule = "no-dns"}), "d ");
  EXPECT_EQ(ids({.protocol = "http"}), "");
  EXPECT_EQ(ids({.context_id = "c-1"}), "d c b a ");
  EXPECT_EQ(ids({.name = "example.com"}), "d ");
  EXPECT_EQ(ids({.name = "*.example.com"}), "d c b a ");
  EXPECT_EQ(ids({.name = "*.ample.com"}), "");
  EXPECT_EQ(ids({.from = 4000}), "d ");
  EXPECT_EQ(ids({.until = 4000}), "c b a ");
  const auto page = file_->newest({}, 0, 2);
  ASSERT_EQ(page->size(), 2U);
  EXPECT_EQ(ids({}, page->at(1).sequence), "b a ");
}

TEST_F(FlowFileTest, KeepsTheNewestOfEachSandboxAndOfAll) {
  open({.rows_per_sandbox = 3, .rows = 8, .age_ms = 1000});
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        file_->write({.flows = {row(concat("a", i)), row(concat("s", i), concat("x", i))}}));
  }
  EXPECT_LE(split(ids({.sandbox_id = "rs-1"}), ' ').size() - 1, 6U);
  EXPECT_LE(split(ids({}), ' ').size() - 1, 16U);
  EXPECT_NE(ids({}).find("s19"), std::string::npos);
  ASSERT_TRUE(file_->trim(1500));
  EXPECT_NE(ids({}), "");
  ASSERT_TRUE(file_->trim(2001));
  EXPECT_EQ(ids({}), "");
}

TEST_F(FlowFileTest, WhatWasOpenIsClosedByTheNextProcess) {
  auto denied = row("b", "rs-1", "denied");
  ASSERT_TRUE(file_->write({.flows = {row("a"), denied}}));
  const auto before = file_->last_revision();
  open();
  EXPECT_EQ((*file_->find("default", "a"))->outcome, "failed");
  EXPECT_NE((*file_->find("default", "a"))->detail.find("ended"), std::string::npos);
  EXPECT_EQ((*file_->find("default", "b"))->outcome, "denied");
  ASSERT_TRUE(file_->write({.flows = {row("c")}}));
  EXPECT_GT(file_->last_revision(), before);
}

TEST_F(FlowFileTest, AddsUpBytesOfSandboxesAndTeams) {
  const Traffic one{.bytes_out = 1, .bytes_in = 2, .flows = 3, .denied = 4};
  ASSERT_TRUE(file_->write({.traffic = {{"rs-1", "default", one}, {"rs-2", "default", one}}}));
  ASSERT_TRUE(file_->write({.traffic = {{"rs-1", "default", one}}}));
  open();
  EXPECT_EQ(*file_->traffic("default", "rs-1"), (Traffic{2, 4, 6, 8}));
  EXPECT_EQ(*file_->traffic("default", ""), (Traffic{3, 6, 9, 12}));
  EXPECT_EQ(*file_->traffic("other", "rs-1"), Traffic{});
}

TEST_F(FlowFileTest, RemembersWhoAnswered) {
  const ApprovalRow asked{.id = "ap-1",
                          .sandbox_id = "rs-1",
                          .team_id = "default",
                          .state = "allowed",
                          .asked_at = 7,
                          .detail = R"({"answered_by":"key"})"};
  ASSERT_TRUE(file_->write({.approvals = {asked}}));
  const auto found = file_->approvals({.team_id = "default", .state = "allowed"}, 0, 10);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->at(0).detail, asked.detail);
  EXPECT_TRUE(file_->approvals({.team_id = "default", .state = "denied"}, 0, 10)->empty());
  EXPECT_TRUE(file_->approvals({.team_id = "other"}, 0, 10)->empty());
}

TEST_F(FlowFileTest, ADamagedFileIsPutAside) {
  ASSERT_TRUE(file_->write({.flows = {row("a")}}));
  file_.reset();
  std::ofstream{directory_ + "/flows.db"} << std::string(8192, 'x');
  std::filesystem::remove(directory_ + "/flows.db-wal");
  open();
  EXPECT_EQ(ids({}), "");
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/flows.db.damaged"));
  ASSERT_TRUE(file_->write({.flows = {row("b")}}));
  EXPECT_EQ(ids({}), "b ");
}

}  // namespace
}  // namespace atl::store
