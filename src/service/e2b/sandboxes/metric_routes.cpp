#include "service/e2b/sandboxes/metric_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

using control::Permission;
using control::UsageSample;

constexpr std::int64_t kLastSecond = 253'402'300'799;

// Of all the processors it has, in percent, since the sample before or its beginning.
double cpu_percent(const UsageSample& sample, const UsageSample* before, UnixMillis created_at) {
  const bool follows = before != nullptr && before->generation == sample.generation;
  const double used = static_cast<double>(sample.cpu_nanoseconds) -
                      (follows ? static_cast<double>(before->cpu_nanoseconds) : 0.0);
  const auto passed_ms = static_cast<double>(sample.at - (follows ? before->at : created_at));
  const double processors = std::max(0.001, static_cast<double>(sample.limits.cpu_millis) / 1000);
  if (passed_ms <= 0) {
    return 0;
  }
  return std::clamp(used / (passed_ms * 1e6 * processors) * 100, 0.0, 100.0);
}

Json sample_json(const UsageSample& sample, double percent) {
  const std::uint64_t cache = sample.memory_bytes > sample.working_set_bytes
                                  ? sample.memory_bytes - sample.working_set_bytes
                                  : 0;
  return Json::object(
      {{"timestamp", native::rfc3339(sample.at)},
       {"timestampUnix", sample.at / 1000},
       {"cpuCount", std::max<std::uint64_t>(1, (sample.limits.cpu_millis + 999) / 1000)},
       {"cpuUsedPct", percent},
       {"memUsed", sample.working_set_bytes},
       {"memTotal", sample.limits.memory_bytes},
       {"memCache", cache},
       {"diskUsed", sample.disk_bytes},
       {"diskTotal", sample.limits.disk_bytes}});
}

}  // namespace

std::vector<Json> metrics_json(const control::Sandbox& sandbox,
                               const std::vector<UsageSample>& samples) {
  std::vector<Json> all;
  const UsageSample* before = nullptr;
  for (const UsageSample& sample : samples) {
    all.push_back(sample_json(sample, cpu_percent(sample, before, sandbox.created_at)));
    before = &sample;
  }
  return all;
}

void MetricRoutes::add_to(E2bRoutes& routes) {
  routes.add("GET", "/sandboxes/{id}/metrics", Permission::kSandboxRead,
             [this](E2bExchange& e, const auto& p) { return of_one(e, parameter(p, "id")); });
  routes.add("GET", "/sandboxes/metrics", Permission::kSandboxRead,
             [this](E2bExchange& e, const auto&) { return of_many(e); });
}

Task<> MetricRoutes::of_one(E2bExchange& exchange, std::string id) {
  const std::string& query = exchange.request().query;
  CO_TRY(const auto start, query_integer(query, "start", 0, kLastSecond));
  CO_TRY(const auto end, query_integer(query, "end", 0, kLastSecond));
  if (start && end && *start > *end) {
    co_return fail(Code::kInvalidArgument, "start must not be after end");
  }
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  CO_TRY(const auto samples, co_await parts_.sandboxes.usage(sandbox.team_id, sandbox.id));
  const auto metrics = metrics_json(sandbox, samples);
  Json wanted = Json::array();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t second = samples[i].at / 1000;
    if (second >= start.value_or(0) && second <= end.value_or(kLastSecond)) {
      wanted.push(metrics[i]);
    }
  }
  co_return co_await exchange.respond_json(200, wanted);
}

Task<> MetricRoutes::of_many(E2bExchange& exchange) {
  constexpr std::size_t kMaxIds = 100;
  const std::string text = http::query_value(exchange.request().query, "sandbox_ids").value_or("");
  const auto ids = split(text, ',');
  if (text.empty() || ids.size() > kMaxIds) {
    co_return fail(Code::kInvalidArgument, concat("sandbox_ids has 1 to ", kMaxIds, " ids"));
  }
  Json metrics = Json::object();
  for (const auto id : ids) {
    const auto sandbox = find_own(parts_, exchange, std::string{trim(id)});
    if (!sandbox) {
      continue;
    }
    CO_TRY(const auto samples, co_await parts_.sandboxes.usage(sandbox->team_id, sandbox->id));
    if (auto all = metrics_json(*sandbox, samples); !all.empty()) {
      metrics.set(sandbox->id, std::move(all.back()));
    }
  }
  co_return co_await exchange.respond_json(200, Json::object({{"sandboxes", std::move(metrics)}}));
}

}  // namespace atl::service::e2b
