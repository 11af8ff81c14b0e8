// diff, tree, volume and mounts: whole invocations against the fake server.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/strings.h"
#include "cli/fake_api.h"

namespace atl::cli {
namespace {

const std::string kVolumes = "/api/v1/sandboxvolumes";

TEST(Volume, IsMadeListedForkedAndDeleted) {
  FakeApi api;
  const std::string create = "POST " + kVolumes;
  api.answers[create] = Json::object({{"id", "v-1"}});
  EXPECT_EQ(api.run({"volume", "create", "--mode", "RWX", "--size", "1Gi", "--uid", "5"}).output,
            "v-1\n");
  EXPECT_EQ(api.sent[create], R"({"access_mode":"RWX","size":"1Gi","default_posix_uid":5})");
  Json list = Json::array();
  list.push(Json::object({{"id", "v-1"},
                          {"access_mode", "RWO"},
                          {"backend", "s0fs"},
                          {"size_bytes", 1 << 30},
                          {"metered_storage_bytes", 2048},
                          {"created_at", "2020-01-01T00:00:00Z"}}));
  api.answers["GET " + kVolumes] = std::move(list);
  EXPECT_EQ(api.run({"volume", "ls", "-q"}).output, "v-1\n");
  const auto table = api.run({"volume", "ls"}).output;
  EXPECT_NE(table.find("v-1     RWO   s0fs     2.0 KiB  1.0 GiB"), std::string::npos) << table;
  api.answers["POST " + kVolumes + "/v-1/fork"] = Json::object({{"id", "v-2"}});
  EXPECT_EQ(api.run({"volume", "fork", "v-1"}).output, "v-2\n");
  api.answers["DELETE " + kVolumes + "/v-1"] = Json::object();
  EXPECT_EQ(api.run({"volume", "rm", "v-1"}).output, "v-1\n");
  EXPECT_NE(api.run({"volume", "rm", "v-9"}).status, 0);
  EXPECT_EQ(api.run({"volume", "rm", "-f", "v-9"}).status, 0);
  EXPECT_NE(api.run({"volume", "fork"}).error.find("atoll volume fork VOLUME"), std::string::npos);
}

TEST(Volume, SnapshotsGetANameAndAreForgotten) {
  FakeApi api;
  const std::string snapshots = "POST " + kVolumes + "/v-1/snapshots";
  api.answers[snapshots] = Json::object({{"id", "s-1"}});
  EXPECT_EQ(api.run({"volume", "snapshot", "v-1"}).output, "s-1\n");
  EXPECT_FALSE(Json::parse(api.sent[snapshots])->find("name")->as_string()->empty());
  const std::string restore = snapshots + "/s-1/restore";
  api.answers[restore] = Json::object();
  EXPECT_EQ(api.run({"volume", "restore", "-f", "v-1", "s-1"}).status, 0);
  EXPECT_EQ(api.sent[restore], R"({"force":true})");
  api.answers["DELETE " + kVolumes + "/v-1/snapshots/s-1"] = Json::object();
  EXPECT_EQ(api.run({"volume", "forget", "v-1", "s-1"}).output, "s-1\n");
}

TEST(Volume, KeysOfABucketComeFromTheEnvironment) {
  FakeApi api;
  ::unsetenv("AWS_ACCESS_KEY_ID");
  EXPECT_NE(api.run({"volume", "create", "--s3", "b"}).error.find("AWS_ACCESS_KEY_ID"),
            std::string::npos);
  ::setenv("AWS_ACCESS_KEY_ID", "a", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
  ::unsetenv("AWS_SESSION_TOKEN");
  api.answers["POST " + kVolumes] = Json::object({{"id", "v-1"}});
  api.run({"volume", "create", "--s3", "b/p/q", "--s3-endpoint", "http://x"});
  EXPECT_EQ(
      api.sent["POST " + kVolumes],
      R"({"backend":"s3","s3":{"bucket":"b","access_key":"a","secret_key":"s","prefix":"p/q",)"
      R"("endpoint_url":"http://x"}})");
}

TEST(Volume, IsMountedByCreate) {
  FakeApi api;
  EXPECT_EQ(api.run({"create", "-v", "v-1:/data", "-v", "v-2:/more:ro"}).status, 0);
  EXPECT_EQ(api.created.at(0).find("mounts")->dump(),
            R"([{"sandboxvolume_id":"v-1","mount_point":"/data"},)"
            R"({"sandboxvolume_id":"v-2","mount_point":"/more","read_only":true}])");
  EXPECT_NE(api.run({"create", "-v", "v-1"}).error.find("VOLUME:/path"), std::string::npos);
}

TEST(Tree, IsDrawn) {
  FakeApi api;
  Json nodes = Json::array();
  const auto add = [&nodes](std::string_view id, int depth, std::string_view kind) {
    nodes.push(Json::object({{"id", id}, {"depth", depth}, {"kind", kind}, {"status", "running"}}));
  };
  add("rs-1", 0, "sandbox");
  add("snap-1", 1, "snapshot");
  add("rs-2", 1, "sandbox");
  api.answers["GET /api/v1/sandbox-trees"] = Json::object({{"nodes", nodes}});
  api.answers["GET /api/v1/sandboxes/rs-2/tree"] = Json::object({{"nodes", nodes}});
  ::setenv("LC_ALL", "C", 1);
  EXPECT_EQ(api.run({"tree", "-q"}).output, "rs-1\n|- snap-1\n`- rs-2\n");
  ::setenv("LC_ALL", "C.UTF-8", 1);
  EXPECT_EQ(api.run({"tree", "-q", "rs-2"}).output, "rs-1\n├─ snap-1\n└─ rs-2\n");
  EXPECT_NE(api.run({"tree"}).output.find("snap-1  snapshot"), std::string::npos);
}

}  // namespace
}  // namespace atl::cli
