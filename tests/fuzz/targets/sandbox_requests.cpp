// What clients ask about sandboxes: as a query of lists and metrics, and as a body of claims and
// updates. What is let through is within its bounds.
#include "base/json.h"
#include "fuzz.h"
#include "service/native/metric_series.h"
#include "service/native/sandbox_json.h"

namespace atl::fuzz {
namespace {

void read_list(std::string_view query) {
  const auto list = service::native::parse_list(query, "team", control::Templates{});
  if (!list) {
    return;
  }
  CHECK(list->limit >= 1 && list->limit <= 200 && list->labels.size() <= 64);
  if (list->after) {
    const auto again = control::parse_cursor(control::format_cursor(*list->after));
    CHECK(again && again->created_at == list->after->created_at && again->id == list->after->id);
  }
}

void read_metrics(std::string_view query) {
  constexpr UnixMillis kNow = 1'800'000'000'000;
  constexpr std::int64_t kMonthMs = 30LL * 24 * 3600 * 1000;
  const auto request = service::native::parse_metrics(query, kNow);
  if (!request) {
    return;
  }
  CHECK(request->start < request->end && request->end - request->start <= kMonthMs);
  CHECK(request->step_seconds >= 15);
  std::vector<control::UsageSample> samples(3);
  samples[0].at = request->start;
  samples[1].at = request->start + 15'000;
  samples[2].at = request->end;
  CHECK(Json::parse(service::native::metrics_json(*request, samples).dump()));
}

}  // namespace

void sandbox_requests(std::string_view input) {
  read_list(input);
  read_metrics(input);
  const auto body = Json::parse(input);
  if (!body || body->as_object() == nullptr) {
    return;
  }
  if (const auto claim = service::native::parse_claim(*body)) {
    CHECK(claim->request.count >= 1 && claim->request.count <= 100);
    CHECK(!claim->request.template_name.empty());
  }
  (void)service::native::parse_update(*body);
}

Seeds sandbox_requests_seeds() {
  return {
      "status=running&paused=false&label=a=b&metadata.c=d&limit=2&cursor=1700000000000.rs-a",
      "name=x&name_prefix=%78&template=default&offset=3",
      "start_time=2027-01-15T07:00:00.5%2B01:00&end_time=2027-01-15T08:00:00Z&step_seconds=60"
      "&statistic=rate&metrics=sandbox.cpu.time,sandbox.network.io&max_points=3",
      R"({"template":"default","name":"n","get_or_create":true,"config":{"ttl":1}})",
      R"({"template":"default","count":3,"partial":true,"config":{"metadata":{"a":"b"}}})",
      R"({"config":{"env_vars":{"A":"1"},"resources":{"memory":"1Gi","cpu":"1"},"idle_ttl":5}})"};
}

}  // namespace atl::fuzz
