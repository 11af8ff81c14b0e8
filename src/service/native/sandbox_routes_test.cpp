// Updates, names, batches, lists, metrics and idempotent claims as a user sees them.
#include "service/native/api_fixture.h"
#include "service/native/metric_series.h"
#include "service/native/sandbox_json.h"

namespace atl::service::native {
namespace {

constexpr const char* kAll = "/api/v1/sandboxes";

class SandboxRoutesTest : public NativeApiTest {
 protected:
  Task<> check_update();
  Task<> check_names_and_batches();
  Task<> check_idempotency();
  Task<> check_metrics();
  Task<> check_use();
  Task<Answer> claim_with(std::string body, std::string key) {
    http::Headers headers;
    if (!key.empty()) {
      headers.add("Idempotency-Key", key);
    }
    return call("POST", kAll, std::move(body), std::move(headers));
  }
};

Task<> SandboxRoutesTest::check_update() {
  CO_TRY(const auto path, co_await claim());
  for (const auto* method : {"PUT", "PATCH"}) {
    CO_TRY(const auto put,
           co_await call(method, path,
                         R"({"config":{"ttl":60,"hard_ttl":90,"metadata":{"a":"b"},)"
                         R"("resources":{"memory":"1Gi"}}})"));
    EXPECT_EQ(put.status, 200) << put.body;
    EXPECT_EQ(put.text("data.resources.memory"), "1Gi");
    EXPECT_EQ(put.text("data.metadata.a"), "b");
  }
  CO_TRY(const auto fresh, co_await call("POST", path + "/refresh"));
  EXPECT_EQ(fresh.status, 200) << fresh.body;
  EXPECT_FALSE(fresh.text("data.expires_at").empty());
  CO_TRY(const auto wrong, co_await call("POST", path + "/refresh", R"({"duration":"5"})"));
  EXPECT_EQ(wrong.status, 400);
  CO_TRY(const auto field, co_await call("PUT", path, R"({"config":{"tll":5}})"));
  EXPECT_EQ(field.status, 400);
  CO_TRY(const auto network, co_await call("PUT", path, R"({"config":{"network":{}}})"));
  EXPECT_EQ(network.status, 400);
  const http::Headers viewer{{"Authorization", concat("Bearer ", kViewerKey)}};
  CO_TRY(const auto refused, co_await call("PUT", path, "{}", viewer));
  EXPECT_EQ(refused.status, 403);
  const std::string id = path.substr(path.rfind('/') + 1);
  node_.usages[id] = {.memory_bytes = 900ULL << 20};
  CO_TRY(const auto less,
         co_await call("PUT", path, R"({"config":{"resources":{"memory":"256Mi"}}})"));
  EXPECT_EQ(less.status, 409) << less.body;
  EXPECT_EQ(less.text("error.details.reason"), "memory_in_use");
  co_return ok();
}
TEST_F(SandboxRoutesTest, UpdateAndRefresh) {
  run(check_update());
}

Task<> SandboxRoutesTest::check_names_and_batches() {
  const std::string named = R"({"template":"default","name":"web","get_or_create":true})";
  CO_TRY(const auto first, co_await claim_with(named, ""));
  EXPECT_EQ(first.status, 201) << first.body;
  EXPECT_EQ(first.text("data.runtime_id"), first.text("data.sandbox_id") + "-1");
  CO_TRY(const auto second, co_await claim_with(named, ""));
  EXPECT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(second.text("data.sandbox_id"), first.text("data.sandbox_id"));
  CO_TRY(const auto taken, co_await claim_with(R"({"template":"default","name":"web"})", ""));
  EXPECT_EQ(taken.status, 409);
  CO_TRY(const auto many, co_await claim_with(R"({"template":"default","count":3})", ""));
  EXPECT_EQ(many.status, 429) << "the quota is three";
  CO_TRY(const auto some,
         co_await claim_with(R"({"template":"default","count":3,"partial":true})", ""));
  EXPECT_EQ(some.status, 201) << some.body;
  EXPECT_EQ(some.at("data.sandboxes").as_array()->size(), 2U);
  EXPECT_EQ(some.at("data.failures").as_array()->size(), 1U);
  CO_TRY(const auto by_name, co_await call("GET", concat(kAll, "?name=web")));
  EXPECT_EQ(*by_name.at("data.count").as_integer(), 1);
  CO_TRY(const auto page, co_await call("GET", concat(kAll, "?limit=2")));
  EXPECT_EQ(*page.at("data.has_more").as_bool(), true);
  CO_TRY(const auto rest,
         co_await call("GET", concat(kAll, "?limit=2&cursor=", page.text("data.next_cursor"))));
  EXPECT_EQ(*rest.at("data.count").as_integer(), 1);
  for (const auto* query : {"?lable=a=b", "?label=a", "?cursor=x", "?status=up", "?limit=%zz"}) {
    CO_TRY(const auto bad, co_await call("GET", concat(kAll, query)));
    EXPECT_EQ(bad.status, 400) << query;
  }
  co_return ok();
}
TEST_F(SandboxRoutesTest, NamesBatchesAndPages) {
  run(check_names_and_batches());
}

Task<> SandboxRoutesTest::check_idempotency() {
  const std::string body = R"({"template":"default"})";
  CO_TRY(const auto first, co_await claim_with(body, "k"));
  CO_TRY(const auto again, co_await claim_with(body, "k"));
  EXPECT_EQ(again.status, 201);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(again.headers.get("Idempotent-Replayed"), "true");
  CO_TRY(const auto other, co_await claim_with(R"({"template":"base"})", "k"));
  EXPECT_EQ(other.status, 409);
  EXPECT_EQ(other.text("error.code"), "idempotency_conflict");
  CO_TRY(const auto bad, co_await claim_with(body, std::string(256, 'k')));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(node_.cells.size(), 1U);
  co_return ok();
}
TEST_F(SandboxRoutesTest, AClaimWithAKeyIsAnsweredAgain) {
  run(check_idempotency());
}

Task<> SandboxRoutesTest::check_metrics() {
  CO_TRY(const auto path, co_await claim());
  const std::string id = path.substr(path.rfind('/') + 1);
  node_.usages[id] = {.memory_bytes = 5, .memory_peak_bytes = 9, .cpu_nanoseconds = 2'000'000'000};
  CO_TRY(const auto got, co_await call("GET", path + "/metrics?metrics=sandbox.cpu.time"));
  EXPECT_EQ(got.status, 200) << got.body;
  EXPECT_EQ(got.at("data.series").as_array()->size(), 1U);
  EXPECT_EQ(*got.at("data.current.memory_peak_bytes").as_integer(), 9);
  EXPECT_EQ(got.text("data.freshness.status"), "fresh");
  CO_TRY(const auto bad, co_await call("GET", path + "/metrics?metrics=nope"));
  EXPECT_EQ(bad.status, 400);
  CO_TRY(const auto catalog, co_await call("GET", path + "/metrics/catalog"));
  EXPECT_EQ(catalog.at("data.metrics").as_array()->size(), 11U);
  co_return ok();
}
TEST_F(SandboxRoutesTest, Metrics) {
  run(check_metrics());
}

// Looking does not count as use, working does.
Task<> SandboxRoutesTest::check_use() {
  CO_TRY(const auto made,
         co_await claim_with(R"({"template":"default","config":{"idle_ttl":600}})", ""));
  const std::string path = concat(kAll, "/", made.text("data.sandbox_id"));
  CO_TRY(const auto before, co_await call("GET", path));
  CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{2}));
  CO_TRY_DO(co_await call("GET", path + "/status"));
  CO_TRY_DO(co_await call("GET", path + "/metrics"));
  CO_TRY(const auto looked, co_await call("GET", path));
  EXPECT_EQ(looked.text("data.idle_expires_at"), before.text("data.idle_expires_at"));
  CO_TRY_DO(co_await call("GET", path + "/contexts"));
  CO_TRY(const auto used, co_await call("GET", path));
  EXPECT_GT(used.text("data.idle_expires_at"), before.text("data.idle_expires_at"));
  co_return ok();
}
TEST_F(SandboxRoutesTest, WhatCountsAsUse) {
  run(check_use());
}

TEST(MetricSeries, StepsGapsAndStatistics) {
  std::vector<control::UsageSample> samples;
  for (int i = 0; i < 6; ++i) {
    samples.push_back({.at = 1'000'000 + i * 15'000,
                       .generation = i < 4 ? 1 : 2,
                       .cpu_nanoseconds = (i < 4 ? i : i - 4) * 7'500'000'000ULL,
                       .working_set_bytes = static_cast<std::uint64_t>(i),
                       .limits = {.cpu_millis = 1000}});
  }
  MetricsRequest request{.start = 1'000'000, .end = 1'080'000, .step_seconds = 30};
  request.names = {"sandbox.cpu.usage", "sandbox.memory.working_set", "sandbox.network.io"};
  const Json json = metrics_json(request, samples);
  const auto& series = *json.find("series")->as_array();
  ASSERT_EQ(series.size(), 2U);
  const auto& cpu = *series[0].find("segments")->as_array();
  ASSERT_EQ(cpu.size(), 2U) << "a restart begins a new segment";
  const auto& first = *cpu[0].find("points")->as_array();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_DOUBLE_EQ(*first[1].find("value")->as_number(), 0.5);
  request.statistic = MetricStatistic::kMaximum;
  const Json highest = metrics_json(request, samples);
  const auto& memory = (*highest.find("series")->as_array())[1];
  const auto& points = *(*memory.find("segments")->as_array())[0].find("points")->as_array();
  ASSERT_EQ(points.size(), 2U);
  EXPECT_DOUBLE_EQ(*points[0].find("value")->as_number(), 1);
  EXPECT_EQ(json.find("gaps")->as_array()->size(), 1U);
  EXPECT_EQ(*metrics_json(request, {}).find("freshness")->find("status")->as_string(), "missing");
}

// So far apart are samples of one that works when thousands do.
TEST(MetricSeries, OneThatIsSampledSeldomHasItsCpuTimeAllTheSame) {
  const std::int64_t apart_ms =
      control::kSampleIntervalMs * static_cast<std::int64_t>(4000 / control::kMaxSampledAtOnce);
  std::vector<control::UsageSample> samples;
  for (int i = 0; i < 4; ++i) {
    samples.push_back({.at = 1'000'000 + i * apart_ms,
                       .generation = 1,
                       .cpu_nanoseconds = static_cast<std::uint64_t>(i * apart_ms) * 500'000,
                       .limits = {.cpu_millis = 1000}});
  }
  MetricsRequest request{.start = 1'000'000, .end = samples.back().at, .step_seconds = 5};
  request.names = {"sandbox.cpu.usage"};
  const Json json = metrics_json(request, samples);
  const auto& segments = *(*json.find("series")->as_array())[0].find("segments")->as_array();
  ASSERT_EQ(segments.size(), 1U);
  const auto& points = *segments[0].find("points")->as_array();
  ASSERT_EQ(points.size(), 3U);
  for (const Json& point : points) {
    EXPECT_DOUBLE_EQ(*point.find("value")->as_number(), 0.5);
  }
  EXPECT_DOUBLE_EQ(*json.find("current")->find("cpu_cores")->as_number(), 0.5);
}

TEST(MetricSeries, TimesAreReadStrictly) {
  const auto start = [](std::string_view text) {
    return parse_metrics(concat("start_time=", text), 1'800'000'000'000);
  };
  EXPECT_EQ(start("2027-01-15T07:00:00Z")->start, 1'799'996'400'000);
  EXPECT_EQ(start("2027-01-15T08:00:00.250%2B01:00")->start, 1'799'996'400'250);
  for (const auto* bad : {"2027-01-15", "2027-13-15T07:00:00Z", "2027-01-15T07:00:00",
                          "2027-01-15T07:00:00.Z", "2027-01-15 07:00:00Z", "+027-01-15T07:00:00Z",
                          "2027-01-15T07:00:00%2B25:00", "2028-01-15T07:00:00Z"}) {
    EXPECT_FALSE(start(bad)) << bad;
  }
}

}  // namespace
}  // namespace atl::service::native
