// network and credential: whole invocations against the fake server.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/fake_api.h"

namespace atl::cli {
namespace {

TEST(Network, IsShownAndReplaced) {
  FakeApi api;
  const std::string path = "/api/v1/sandboxes/sb-1/network";
  api.answers["GET " + path] = Json::object({{"mode", "allow-all"}});
  EXPECT_NE(api.run({"network", "get", "sb-1"}).output.find("allow-all"), std::string::npos);
  api.answers["PUT " + path] = Json::object({{"mode", "block-all"}});
  const auto set = api.run({"network", "set", "sb-1"}, R"({"mode":"block-all"})");
  EXPECT_EQ(set.error, "");
  EXPECT_EQ(api.sent["PUT " + path], R"({"mode":"block-all"})");
  EXPECT_NE(api.run({"network", "set", "sb-1", "/no/such/file"}).status, 0);
  EXPECT_NE(api.run({"network", "set", "sb-1", "-"}, "no json").status, 0);
  EXPECT_NE(api.run({"network", "get", "sb-1", "file"}).status, 0);
}

TEST(Credential, IsReadFromStandardInputAndNeverShown) {
  FakeApi api;
  const std::string path = "/api/v1/credential-sources";
  api.answers["POST " + path] = Json::object({{"name", "gh"}});
  const auto made = api.run({"credential", "create", "gh", "--key", "token"}, "s3cret\n");
  EXPECT_EQ(made.output, "gh\n");
  EXPECT_EQ(api.sent["POST " + path],
            R"({"resolverKind":"static_headers",)"
            R"("spec":{"staticHeaders":{"values":{"token":"s3cret"}}},"name":"gh"})");
  api.answers["PUT " + path + "/gh"] = Json::object({{"name", "gh"}});
  const auto rotated = api.run({"credential", "rotate", "gh", "-"},
                               R"({"resolverKind":"http","spec":{"http":{"url":"https://x"}}})");
  EXPECT_EQ(rotated.output, "gh\n");
  const auto broken = api.run({"credential", "create", "gh"}, "s3cret");
  EXPECT_NE(broken.status, 0);
  EXPECT_EQ(broken.error.find("s3cret"), std::string::npos);
  Json list = Json::array();
  list.push(Json::object({{"name", "gh"},
                          {"resolverKind", "static_headers"},
                          {"currentVersion", 2},
                          {"status", "active"},
                          {"updatedAt", "2020-01-01T00:00:00Z"}}));
  api.answers["GET " + path] = std::move(list);
  EXPECT_EQ(api.run({"credential", "ls", "-q"}).output, "gh\n");
  EXPECT_NE(api.run({"credential", "ls"}).output.find("static_headers  2"), std::string::npos);
  api.answers["DELETE " + path + "/gh"] = Json::object();
  EXPECT_EQ(api.run({"credential", "rm", "gh"}).output, "gh\n");
  EXPECT_NE(api.run({"credential", "create"}).error.find("NAME [FILE|-]"), std::string::npos);
}

}  // namespace
}  // namespace atl::cli
