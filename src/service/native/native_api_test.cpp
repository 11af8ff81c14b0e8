// Health, keys, sandboxes and bad bodies as a user sees them.
#include "service/native/api_fixture.h"

namespace atl::service::native {
namespace {

class SandboxApiTest : public NativeApiTest {
 protected:
  Task<> check_meta();
  Task<> check_auth();
  Task<> check_sandboxes();
  Task<> check_bad_bodies();
};

Task<> SandboxApiTest::check_meta() {
  CO_TRY(const auto health, co_await call("GET", "/healthz"));
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.text("status"), "ok");
  CO_TRY(const auto ready, co_await call("GET", "/readyz"));
  EXPECT_EQ(ready.status, 200);
  CO_TRY(const auto metadata, co_await call("GET", "/metadata"));
  EXPECT_EQ(metadata.text("data.gateway_mode"), "direct");
  CO_TRY(const auto metrics, co_await call("GET", "/metrics"));
  EXPECT_NE(
      metrics.body.find("atoll_service_requests_total{route=\"GET /healthz\",status=\"200\"}"),
      std::string::npos);
  CO_TRY(const auto id, co_await call("GET", "/healthz", {}, {{"x-request-id", "mine-1"}}));
  EXPECT_EQ(id.headers.get("x-request-id"), "mine-1");
  CO_TRY(const auto bad, co_await call("GET", "/healthz", {}, {{"x-request-id", "a b\"c"}}));
  EXPECT_NE(bad.headers.get("x-request-id"), "a b\"c");
  co_return ok();
}
TEST_F(SandboxApiTest, HealthMetadataMetricsAndRequestIds) {
  run(check_meta());
}

Task<> SandboxApiTest::check_auth() {
  const std::string path = "/api/v1/sandboxes";
  CO_TRY(const auto wrong, co_await call("GET", path, {}, {{"Authorization", "Bearer nope"}}));
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(wrong.text("error.code"), "unauthorized");
  CO_TRY(const auto scheme, co_await call("GET", path, {}, {{"Authorization", "Basic eA=="}}));
  EXPECT_EQ(scheme.status, 401);
  CO_TRY(const auto hidden,
         co_await call("GET", "/api/v1/nope", {}, {{"Authorization", "Bearer nope"}}));
  EXPECT_EQ(hidden.status, 401) << "what exists is nobody's business without a key";
  const http::Headers viewer{{"Authorization", concat("Bearer ", kViewerKey)}};
  CO_TRY(const auto read, co_await call("GET", path, {}, viewer));
  EXPECT_EQ(read.status, 200);
  CO_TRY(const auto write, co_await call("POST", path, R"({"template":"default"})", viewer));
  EXPECT_EQ(write.status, 403);
  EXPECT_EQ(write.text("error.code"), "forbidden");
  EXPECT_TRUE(node_.cells.empty());
  co_return ok();
}
TEST_F(SandboxApiTest, KeysAndRolesAreChecked) {
  run(check_auth());
}

Task<> SandboxApiTest::check_sandboxes() {
  CO_TRY(const auto path, co_await claim());
  CO_TRY(const auto got, co_await call("GET", path));
  EXPECT_EQ(got.text("data.status"), "running");
  EXPECT_EQ(got.text("data.resources.memory"), "2Gi");
  EXPECT_TRUE(got.json.find("data")->as_object() != nullptr);
  EXPECT_NE(got.body.find("\"expires_at\":null"), std::string::npos);
  CO_TRY(const auto status, co_await call("GET", path + "/status"));
  EXPECT_EQ(status.text("data.template_id"), "default");
  CO_TRY(const auto list, co_await call("GET", "/api/v1/sandboxes?status=running&limit=1"));
  EXPECT_EQ(list.at("data.sandboxes").as_array()->size(), 1U);
  EXPECT_EQ(*list.at("data.has_more").as_bool(), false);
  CO_TRY(const auto bad, co_await call("GET", "/api/v1/sandboxes?limit=1000"));
  EXPECT_EQ(bad.status, 400);
  CO_TRY(const auto deleted, co_await call("DELETE", path));
  EXPECT_EQ(deleted.status, 202);
  CO_TRY(const auto gone, co_await call("GET", path));
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.text("error.code"), "not_found");
  CO_TRY(const auto method, co_await call("PATCH", "/api/v1/sandboxes"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.get("Allow"), "POST, GET");
  CO_TRY(const auto route, co_await call("GET", "/api/v1/nothing"));
  EXPECT_EQ(route.status, 404);
  for (int i = 0; i < 3; ++i) {
    CO_TRY_DO(co_await claim());
  }
  CO_TRY(const auto full, co_await call("POST", "/api/v1/sandboxes", R"({"template":"base"})"));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.text("error.code"), "quota_exceeded");
  co_return ok();
}
TEST_F(SandboxApiTest, SandboxesLiveAndGo) {
  run(check_sandboxes());
}

Task<> SandboxApiTest::check_bad_bodies() {
  struct Case {
    std::string body;
    int status;
    std::string word;
  };
  const Case cases[] = {
      {"", 400, "JSON object"},
      {"[1]", 400, "an array"},
      {"{", 400, "not valid JSON"},
      {R"({"template":"default","confg":{}})", 400, "confg"},
      {R"({"template":7})", 400, "a string"},
      {R"({})", 400, "template"},
      {R"({"template":"nope"})", 404, "default"},
      {R"({"template":"default","snapshot_id":"x"})", 404, "no snapshot"},
      {R"({"template":"default","config":{"network":{}}})", 400, "config.network"},
      {R"({"template":"default","config":{"ttl":"5"}})", 400, "config.ttl"},
      {R"({"template":"default","config":{"ttl":-1}})", 400, "from 0"},
      {R"({"template":"default","config":{"env_vars":{"A":1}}})", 400, "config.env_vars.A"},
      {R"({"template":"default","config":{"resources":{"gpu":"1"}}})", 400, "memory, cpu, disk"},
      {R"({"template":"default","config":{"resources":{"memory":"1Mi"}}})", 400, "128Mi"},
      {std::string(2U << 20, ' '), 413, "1048576"},
  };
  for (const auto& test : cases) {
    auto answer = co_await call("POST", "/api/v1/sandboxes", test.body);
    if (!answer) {
      // The server may close on an oversized body before it was all sent.
      EXPECT_EQ(test.status, 413);
      continue;
    }
    EXPECT_EQ(answer->status, test.status) << test.body.substr(0, 80);
    EXPECT_NE(answer->text("error.message").find(test.word), std::string::npos) << answer->body;
  }
  EXPECT_TRUE(node_.cells.empty());
  co_return ok();
}
TEST_F(SandboxApiTest, BadBodiesSayWhatToChange) {
  run(check_bad_bodies());
}

}  // namespace
}  // namespace atl::service::native
