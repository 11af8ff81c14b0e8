// service, preview and expose: whole invocations against the fake server.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/fake_api.h"

namespace atl::cli {
namespace {

const std::string kServices = "/api/v1/sandboxes/sb-1/services";
const std::string kPreviews = "/api/v1/sandboxes/sb-1/previews";

Json listed(std::string_view id, int port, std::string_view url) {
  Json list = Json::array();
  list.push(Json::object({{"id", id}, {"port", port}, {"public_url", url}}));
  return Json::object({{"sandbox_id", "sb-1"}, {"services", std::move(list)}});
}

TEST(Service, IsListedSetAndFound) {
  FakeApi api;
  api.answers["GET " + kServices] = listed("web", 3000, "http://x--p3000.test");
  EXPECT_EQ(api.run({"service", "ls", "sb-1", "-q"}).output, "web\n");
  EXPECT_NE(api.run({"service", "ls", "sb-1"}).output.find("http://x--p3000.test"),
            std::string::npos);
  EXPECT_EQ(api.run({"service", "url", "sb-1", "web"}).output, "http://x--p3000.test\n");
  EXPECT_EQ(api.run({"service", "url", "sb-1", "3000"}).output, "http://x--p3000.test\n");
  EXPECT_NE(api.run({"service", "url", "sb-1", "other"}).status, 0);
  EXPECT_NE(api.run({"service", "set", "sb-1"}).error.find("SANDBOX FILE"), std::string::npos);
}

TEST(Expose, KeepsWhatIsThere) {
  FakeApi api;
  api.answers["GET " + kServices] = listed("web", 3000, "http://x--p3000.test");
  api.answers["PUT " + kServices] = listed("port-80", 80, "http://x--p80.test");
  EXPECT_EQ(api.run({"expose", "sb-1", "80", "--token", "secret"}).output, "http://x--p80.test\n");
  const std::string& sent = api.sent["PUT " + kServices];
  EXPECT_NE(sent.find("\"web\""), std::string::npos) << sent;
  EXPECT_NE(sent.find("\"port-80\""), std::string::npos) << sent;
  EXPECT_EQ(sent.find("secret\""), std::string::npos) << sent;
  EXPECT_NE(sent.find("2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"),
            std::string::npos)
      << sent;
}

TEST(Preview, IsMadeAndTakenBack) {
  FakeApi api;
  api.answers["POST " + kPreviews] = Json::object({{"id", "pv-1"}, {"url", "http://link"}});
  EXPECT_EQ(api.run({"preview", "create", "sb-1", "3000", "--ttl", "60", "--https"}).output,
            "http://link\n");
  EXPECT_EQ(api.sent["POST " + kPreviews], R"({"port":3000,"protocol":"https","ttl_seconds":60})");
  api.answers["DELETE " + kPreviews + "/pv-1"] = Json::object();
  EXPECT_EQ(api.run({"preview", "rm", "sb-1", "pv-1"}).status, 0);
  EXPECT_NE(api.run({"preview", "create", "sb-1", "web"}).status, 0);
}

}  // namespace
}  // namespace atl::cli
