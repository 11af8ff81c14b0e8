// The flow log on a real file: what is told is kept, in batches, and followed.
#include "control/flow_log.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "control/fixture.h"
#include "control/flow_row.h"
#include "control/limits.h"
#include "io/reactor.h"

namespace atl::control {
namespace {

egress::FlowRecord flow(std::string id, egress::Outcome outcome = egress::Outcome::kAllowed) {
  egress::FlowRecord record;
  record.id = std::move(id);
  record.sandbox_id = "rs-1";
  record.team_id = "default";
  record.began_at = 1'700'000'000'000;
  record.duration_ms = 12;
  record.protocol = egress::AppProtocol::kTls;
  record.source = "10.200.0.2:4000";
  record.destination = "93.184.216.34:443";
  record.dialled = "93.184.216.34:443";
  record.name = "example.com";
  record.outcome = outcome;
  record.origin = "sandbox";
  record.rule = "web";
  record.reason = "rule web";
  record.intercepted = true;
  record.credential = "token@3";
  record.operations = {"GET / 200", "POST /x 201"};
  record.operations_left_out = 2;
  record.bytes_out = 100;
  record.bytes_in = 2000;
  record.opener = {7, "curl", "ctx-1"};
  return record;
}

class FlowLogTest : public testing::Test {
 protected:
  // The script runs beside the writer, which is then ended and writes what is left.
  void run(Task<> script) {
    const auto done = reactor_.run_until_complete(beside(std::move(script)));
    EXPECT_TRUE(done) << done.error().message;
  }
  Task<> beside(Task<> script) {
    Scope scope{co_await current_context()};
    scope.spawn("log", log_.run());
    auto done = co_await with_deadline(std::chrono::seconds{30}, std::move(script));
    (void)co_await scope.cancel_and_join();
    co_return std::move(done);
  }

  TemporaryDirectory directory_;
  SystemWallClock clock_;
  Metrics metrics_;
  io::Reactor reactor_;
  io::OffloadPool thread_{"flows", 1, 100};
  std::unique_ptr<store::FlowFile> file_ =
      *store::open_sqlite_flow_file(directory_.path() + "/flows.db");
  FlowLog log_{*file_, thread_, clock_, metrics_};
};

TEST(FlowRow, KeepsEverythingOfARecord) {
  const auto record = flow("a");
  const auto again = flow_record(flow_row(record));
  EXPECT_EQ(flow_row(again).detail, flow_row(record).detail);
  EXPECT_EQ(again.operations, record.operations);
  EXPECT_EQ(again.bytes_in, 2000U);
  EXPECT_EQ(again.opener.program, "curl");
  EXPECT_EQ(again.opener.context_id, "ctx-1");
  EXPECT_TRUE(again.intercepted);
  EXPECT_EQ(again.duration_ms, 12);
}

TEST(FlowRow, BoundsWhatStrangersSay) {
  auto record = flow("a");
  record.name = std::string(100'000, 'x') + "\xff";
  record.reason = "\xff";
  const auto row = flow_row(record);
  EXPECT_LE(row.name.size(), 2048U);
  EXPECT_TRUE(is_utf8(row.detail));
}

Task<> follow_to_the_end(FlowLog& log, std::vector<std::string>& seen) {
  CO_TRY(auto follower, co_await log.follow({.team_id = "default", .sandbox_id = "rs-1"}, {}));
  auto other = flow("x");
  other.sandbox_id = "rs-2";
  log.record(other);
  log.record(flow("a", egress::Outcome::kOpen));
  CO_TRY(const auto began, co_await follower.next());
  log.record(flow("a"));
  log.record(flow("b", egress::Outcome::kDenied));
  std::vector<KeptFlow> all = began;
  while (all.size() < 3) {
    CO_TRY(const auto more, co_await follower.next());
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const auto& kept : all) {
    seen.push_back(concat(kept.record.id, " ", outcome_name(kept.record.outcome)));
  }
  co_return ok();
}

TEST_F(FlowLogTest, IsFollowedAsItIsWritten) {
  std::vector<std::string> seen;
  run(follow_to_the_end(log_, seen));
  EXPECT_EQ(seen, (std::vector<std::string>{"a open", "a allowed", "b denied"}));
}

Task<> record_short(FlowLog& log) {
  log.record(flow("a", egress::Outcome::kOpen));
  log.record(flow("b", egress::Outcome::kOpen));
  log.record(flow("a"));
  co_return ok();
}

TEST_F(FlowLogTest, AFlowThatEndsAtOnceIsWrittenOnce) {
  run(record_short(log_));
  const auto rows = *file_->newest({}, 0, 10);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, "b");
  EXPECT_EQ(rows[1].id, "a");
  EXPECT_EQ(rows[1].outcome, "allowed");
  EXPECT_EQ(rows[1].revision, 1);
}

Task<> record_many(FlowLog& log, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    log.record(flow(concat("f", i)));
  }
  co_return ok();
}

Task<> find_at_once(FlowLog& log, std::vector<std::string>& seen) {
  for (const auto outcome : {egress::Outcome::kOpen, egress::Outcome::kDenied}) {
    log.record(flow("a", outcome));
    CO_TRY(const auto found, co_await log.find("default", "a"));
    seen.emplace_back(found ? outcome_name(found->record.outcome) : "nothing");
  }
  CO_TRY(const auto nothing, co_await log.find("default", "b"));
  EXPECT_FALSE(nothing);
  co_return ok();
}

TEST_F(FlowLogTest, AFlowIsFoundAsSoonAsItWasTold) {
  std::vector<std::string> seen;
  run(find_at_once(log_, seen));
  EXPECT_EQ(seen, (std::vector<std::string>{"open", "denied"}));
}

TEST_F(FlowLogTest, WhatIsLeftIsWrittenAtTheEnd) {
  run(record_many(log_, 3));
  EXPECT_EQ(file_->newest({}, 0, 10)->size(), 3U);
  EXPECT_EQ(*file_->traffic("default", "rs-1"), (store::Traffic{300, 6000, 3, 0}));
}

Task<> flood(FlowLog& log) {
  CO_TRY_DO(co_await record_many(log, kMaxQueuedFlowsPerSandbox + 5));
  auto quiet = flow("quiet");
  quiet.sandbox_id = "rs-2";
  log.record(quiet);
  co_return ok();
}

TEST_F(FlowLogTest, AFullShareLosesRecordsOfItsSandboxButNoBytes) {
  run(flood(log_));
  EXPECT_NE(metrics_.render().find("atoll_network_flows_dropped_total 5"), std::string::npos);
  EXPECT_EQ(file_->traffic("default", "rs-1")->bytes_out, 100 * (kMaxQueuedFlowsPerSandbox + 5));
  EXPECT_TRUE(file_->find("default", "quiet")->has_value());
}

Task<> follow_too_often(FlowLog& log) {
  std::vector<FlowLog::Follower> followers;
  for (std::size_t i = 0; i < kMaxFlowFollowersPerTeam; ++i) {
    CO_TRY(auto follower, co_await log.follow({.team_id = "default"}, 0));
    followers.push_back(std::move(follower));
  }
  auto refused = co_await log.follow({.team_id = "default"}, 0);
  EXPECT_FALSE(refused);
  auto other = co_await log.follow({.team_id = "other"}, 0);
  EXPECT_TRUE(other);
  followers.pop_back();
  auto again = co_await log.follow({.team_id = "default"}, 0);
  EXPECT_TRUE(again);
  co_return ok();
}

TEST_F(FlowLogTest, OneTeamDoesNotTakeThePlacesOfAllWhoFollow) {
  run(follow_too_often(log_));
}

Task<> traffic_at_once(FlowLog& log, store::Traffic& sum) {
  log.record(flow("a"));
  CO_TRY(sum, co_await log.traffic("default", "rs-1"));
  co_return ok();
}

TEST_F(FlowLogTest, BytesThatAreNotWrittenYetCount) {
  store::Traffic sum;
  run(traffic_at_once(log_, sum));
  EXPECT_EQ(sum, (store::Traffic{100, 2000, 1, 0}));
}

}  // namespace
}  // namespace atl::control
