// pause, resume, snapshot, fork: whole invocations against the fake server.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/fake_api.h"

namespace atl::cli {
namespace {

const std::string kBox = "/api/v1/sandboxes/rs-1";

Json snapshot(std::string_view id, std::string_view name) {
  return Json::object({{"id", id},
                       {"sandbox_id", "rs-1"},
                       {"name", name},
                       {"description", "a\nb"},
                       {"created_at", "2020-01-01T00:00:00Z"}});
}

TEST(Pause, SaysWhatBecomesOfTheProcesses) {
  FakeApi api;
  const std::string pause = "POST " + kBox + "/pause";
  api.answers[pause] = Json::object({{"sandbox_id", "rs-1"}, {"memory", "frozen"}});
  EXPECT_EQ(api.run({"pause", "rs-1"}).output, "rs-1\n");
  EXPECT_EQ(api.sent[pause], R"({"memory":true})");
  api.run({"pause", "--memory", "none", "rs-1"});
  EXPECT_EQ(api.sent[pause], R"({"memory":false})");
  const auto outcome = api.run({"pause", "--memory", "disk", "-o", "json", "rs-1"});
  EXPECT_EQ(api.sent[pause], R"({"memory":"disk"})");
  EXPECT_EQ(Json::parse(outcome.output)->dump(),
            R"({"paused":[{"sandbox_id":"rs-1","memory":"frozen"}],"failed":[]})");
  EXPECT_NE(api.run({"pause", "--memory", "some", "rs-1"}).status, 0);
}

TEST(Pause, OneThatFailsDoesNotKeepTheOthers) {
  FakeApi api;
  api.answers["POST " + kBox + "/pause"] = Json::object();
  const auto outcome = api.run({"pause", "rs-0", "rs-1"});
  EXPECT_EQ(outcome.status, code_exit_status(Code::kNotFound));
  EXPECT_EQ(outcome.output, "rs-1\n");
  EXPECT_EQ(outcome.error, "atoll: rs-0: fake not_found\n");
}

TEST(Resume, TellsWhatCouldNotGoOn) {
  FakeApi api;
  const std::string resume = "POST " + kBox + "/resume";
  api.answers[resume] = Json::object({{"restored", "memory"}});
  EXPECT_EQ(api.run({"resume", "rs-1"}).error, "");
  api.answers[resume] = Json::object({{"restored", "filesystem"}, {"reason", "the host\ncrashed"}});
  const auto outcome = api.run({"resume", "rs-1"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "rs-1\n");
  EXPECT_EQ(outcome.error,
            "atoll: rs-1: its files are there, its processes began again: the host\\x0acrashed\n");
  EXPECT_EQ(api.run({"resume", "-q", "rs-1"}).error, "");
}

TEST(Snapshot, IsTakenListedAndDeleted) {
  FakeApi api;
  const std::string create = "POST " + kBox + "/snapshots";
  api.answers[create] = snapshot("snap-1", "one");
  EXPECT_EQ(api.run({"snapshot", "create", "rs-1", "-n", "one", "--description", "x"}).output,
            "snap-1\n");
  EXPECT_EQ(api.sent[create], R"({"name":"one","description":"x"})");
  api.run({"snapshot", "create", "rs-1", "--expires", "1h"});
  EXPECT_NE(Json::parse(api.sent[create])->find("expires_at"), nullptr);
  Json list = Json::array();
  list.push(snapshot("snap-1", "one"));
  list.push(snapshot("snap-2", ""));
  api.answers["GET " + kBox + "/snapshots"] = Json::object({{"snapshots", std::move(list)}});
  EXPECT_EQ(api.run({"snapshot", "ls", "-q", "rs-1"}).output, "snap-1\nsnap-2\n");
  const auto table = api.run({"snapshot", "ls", "rs-1"}).output;
  EXPECT_NE(table.find("snap-2    -"), std::string::npos) << table;
  EXPECT_NE(table.find("never    a\\x0ab\n"), std::string::npos) << table;
  api.answers["DELETE /api/v1/sandbox-rootfs-snapshots/snap-1"] = Json::object();
  EXPECT_EQ(api.run({"snapshot", "rm", "-f", "snap-1", "snap-9"}).output, "snap-1\nsnap-9\n");
  EXPECT_EQ(api.run({"snapshot", "rm", "snap-9"}).status, code_exit_status(Code::kNotFound));
}

TEST(Snapshot, IsRestoredByItsNameWhenThatIsClear) {
  FakeApi api;
  Json list = Json::array();
  list.push(snapshot("snap-1", "one"));
  list.push(snapshot("snap-2", "two"));
  list.push(snapshot("snap-3", "two"));
  api.answers["GET " + kBox + "/snapshots"] = Json::object({{"snapshots", std::move(list)}});
  const std::string restore = "POST " + kBox + "/rootfs/restore";
  api.answers[restore] = Json::object();
  EXPECT_EQ(api.run({"snapshot", "restore", "rs-1", "one"}).output, "rs-1\n");
  EXPECT_EQ(api.sent[restore], R"({"snapshot_id":"snap-1"})");
  api.run({"snapshot", "restore", "--force", "rs-1", "snap-3"});
  EXPECT_EQ(api.sent[restore], R"({"snapshot_id":"snap-3","force":true})");
  const auto outcome = api.run({"snapshot", "restore", "rs-1", "two"});
  EXPECT_NE(outcome.error.find("several snapshots are called two"), std::string::npos);
  EXPECT_NE(api.run({"snapshot", "restore", "rs-1"}).status, 0);
}

TEST(Snapshot, BeginsANewSandbox) {
  FakeApi api;
  EXPECT_EQ(api.run({"create", "--snapshot", "snap-1"}).output, "sb-1\n");
  EXPECT_EQ(api.created.at(0).dump(), R"({"snapshot_id":"snap-1"})");
  EXPECT_NE(api.run({"create", "--snapshot", "snap-1", "-t", "default"}).status, 0);
}

TEST(Fork, PrintsTheChildren) {
  FakeApi api;
  const std::string fork = "POST " + kBox + "/fork";
  Json children = Json::array();
  children.push(Json::object({{"id", "rs-2"}}));
  children.push(Json::object({{"id", "rs-3"}}));
  api.answers[fork] = Json::object({{"sandboxes", std::move(children)}});
  EXPECT_EQ(api.run({"fork", "rs-1"}).output, "rs-2\nrs-3\n");
  EXPECT_EQ(api.sent[fork], R"({"count":1})");
  api.run({"fork", "-n", "2", "--memory", "interpreters", "--start", "--ttl", "1m", "rs-1"});
  EXPECT_EQ(api.sent[fork],
            R"({"count":2,"start":true,"memory":"interpreters","config":{"ttl":60}})");
  Json carried = Json::array();
  carried.push(
      Json::object({{"alias", "python"}, {"context_id", "c-1"}, {"reason", "it is busy"}}));
  api.answers[fork].set("interpreters", std::move(carried));
  EXPECT_EQ(api.run({"fork", "--memory", "interpreters", "rs-1"}).error,
            "atoll: python c-1: it is busy\n");
  api.run({"fork", "--memory", "processes", "rs-1"});
  EXPECT_EQ(api.sent[fork], R"({"count":1,"memory":true})");
  EXPECT_NE(api.run({"fork", "-n", "101", "rs-1"}).error.find("at most 100"), std::string::npos);
}

}  // namespace
}  // namespace atl::cli
