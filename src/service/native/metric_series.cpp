#include "service/native/metric_series.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "control/limits.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::UsageSample;

constexpr std::int64_t kMinStepSeconds = control::kSampleIntervalMs / 1000;
constexpr std::int64_t kDefaultRangeMs = std::int64_t{3600} * 1000;
constexpr std::int64_t kMaxRangeMs = 30LL * 24 * 3600 * 1000;
// What is older than this is not what is now.
constexpr std::int64_t kMaxFreshMs = 3 * control::kSampleIntervalMs;
constexpr std::array<std::string_view, 6> kStatistics{"auto",    "average", "minimum",
                                                      "maximum", "last",    "rate"};
// Of the contract, but nothing here measures them.
constexpr std::array<std::string_view, 3> kUnsupported{
    "sandbox.network.io", "sandbox.network.errors", "sandbox.rootfs.writable.inodes"};

// A value of the second of two neighbouring samples.
using Reader = double (*)(const UsageSample& before, const UsageSample& sample);

double cores(const UsageSample& before, const UsageSample& sample) {
  const auto ms = static_cast<double>(sample.at - before.at);
  const auto ns = static_cast<double>(sample.cpu_nanoseconds - before.cpu_nanoseconds);
  return ms <= 0 ? 0 : ns / (ms * 1e6);
}
double limit_cores(const UsageSample& sample) {
  return sample.limits.cpu_millis / 1000.0;
}
double ratio(double part, double whole) {
  return whole <= 0 ? 0 : part / whole;
}
double number(std::uint64_t value) {
  return static_cast<double>(value);
}

struct Metric {
  std::string_view name;
  std::string_view kind;
  std::string_view unit;
  std::string_view description;
  bool needs_two;
  Reader read;
};
constexpr std::array kMetrics = std::to_array<Metric>({
    {"sandbox.cpu.utilization", "gauge", "ratio", "Part of the cpu limit in use", true,
     [](const UsageSample& a, const UsageSample& b) { return ratio(cores(a, b), limit_cores(b)); }},
    {"sandbox.cpu.usage", "gauge", "cores", "Cores in use", true, cores},
    {"sandbox.cpu.time", "counter", "seconds", "Cpu time since the sandbox was started", false,
     [](const UsageSample&, const UsageSample& b) { return number(b.cpu_nanoseconds) / 1e9; }},
    {"sandbox.cpu.limit", "gauge", "cores", "Cores it may use", false,
     [](const UsageSample&, const UsageSample& b) { return limit_cores(b); }},
    {"sandbox.memory.usage", "gauge", "bytes", "Memory in use, with file cache", false,
     [](const UsageSample&, const UsageSample& b) { return number(b.memory_bytes); }},
    {"sandbox.memory.working_set", "gauge", "bytes",
     "Memory in use, without cache that can go at once", false,
     [](const UsageSample&, const UsageSample& b) { return number(b.working_set_bytes); }},
    {"sandbox.memory.available", "gauge", "bytes", "Memory left under the limit", false,
     [](const UsageSample&, const UsageSample& b) {
       return number(b.limits.memory_bytes - std::min(b.limits.memory_bytes, b.working_set_bytes));
     }},
    {"sandbox.memory.limit", "gauge", "bytes", "Memory it may use", false,
     [](const UsageSample&, const UsageSample& b) { return number(b.limits.memory_bytes); }},
    {"sandbox.memory.utilization", "gauge", "ratio", "Part of the memory limit in use", false,
     [](const UsageSample&, const UsageSample& b) {
       return ratio(number(b.working_set_bytes), number(b.limits.memory_bytes));
     }},
    {"sandbox.process.count", "gauge", "count", "Processes and threads", false,
     [](const UsageSample&, const UsageSample& b) { return number(b.process_count); }},
    {"sandbox.rootfs.writable.usage", "gauge", "bytes", "Disk written by the sandbox", false,
     [](const UsageSample&, const UsageSample& b) { return number(b.disk_bytes); }},
});

struct Point {
  UnixMillis at = 0;
  double value = 0;
};
using Segment = std::vector<Point>;

// However far apart: who does nothing is sampled less often, and so is everybody where there are
// more than can be asked in one round. Cpu time is counted meanwhile.
bool neighbours(const UsageSample& before, const UsageSample& sample) {
  return before.generation == sample.generation && sample.cpu_nanoseconds >= before.cpu_nanoseconds;
}

std::vector<Segment> read_segments(Reader read, bool needs_two, const MetricsRequest& request,
                                   const std::vector<UsageSample>& samples) {
  std::vector<Segment> segments(1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool follows = i > 0 && neighbours(samples[i - 1], samples[i]);
    if (i > 0 && !follows && !segments.back().empty()) {
      segments.emplace_back();
    }
    if (samples[i].at < request.start || samples[i].at > request.end || (needs_two && !follows)) {
      continue;
    }
    segments.back().push_back(
        {samples[i].at, read(follows ? samples[i - 1] : samples[i], samples[i])});
  }
  std::erase_if(segments, [](const Segment& segment) { return segment.empty(); });
  return segments;
}

double combine(MetricStatistic statistic, double so_far, double value, std::size_t count) {
  switch (statistic) {
    case MetricStatistic::kMinimum:
      return std::min(so_far, value);
    case MetricStatistic::kMaximum:
      return std::max(so_far, value);
    case MetricStatistic::kLast:
      return value;
    default:
      return so_far + (value - so_far) / static_cast<double>(count);
  }
}

// One point per step, at the time of the last value in it.
Segment thin_out(const Segment& segment, MetricStatistic statistic, const MetricsRequest& request) {
  Segment thin;
  std::int64_t current = -1;
  std::size_t count = 0;
  for (const auto& point : segment) {
    const auto step = (point.at - request.start) / (request.step_seconds * 1000);
    if (step != current) {
      current = step;
      count = 1;
      thin.push_back(point);
      continue;
    }
    ++count;
    thin.back() = {point.at, combine(statistic, thin.back().value, point.value, count)};
  }
  return thin;
}

Json series_json(const Metric& metric, const MetricsRequest& request,
                 const std::vector<UsageSample>& samples) {
  const bool counter = metric.kind == "counter";
  const bool rate = counter && request.statistic == MetricStatistic::kRate;
  MetricStatistic statistic = request.statistic;
  if (!rate &&
      (counter || statistic == MetricStatistic::kAuto || statistic == MetricStatistic::kRate)) {
    statistic = counter ? MetricStatistic::kLast : MetricStatistic::kAverage;
  }
  // The only counter is cpu time, and its rate is cores.
  const auto segments =
      read_segments(rate ? Reader{cores} : metric.read, metric.needs_two || rate, request, samples);
  Json segments_json = Json::array();
  for (const auto& segment : segments) {
    Json points = Json::array();
    for (const auto& point : thin_out(segment, statistic, request)) {
      points.push(Json::object({{"time", rfc3339(point.at)}, {"value", point.value}}));
    }
    segments_json.push(Json::object({{"points", std::move(points)}}));
  }
  return Json::object({{"metric", metric.name},
                       {"kind", metric.kind},
                       {"unit", rate ? "cores" : metric.unit},
                       {"statistic", kStatistics[static_cast<std::size_t>(statistic)]},
                       {"dimensions", Json::object()},
                       {"segments", std::move(segments_json)}});
}

Json gap_json(std::string_view metric, const MetricsRequest& request, std::string_view reason) {
  return Json::object({{"metric", metric},
                       {"dimensions", Json::object()},
                       {"start_time", rfc3339(request.start)},
                       {"end_time", rfc3339(request.end)},
                       {"reason", reason}});
}

Json freshness_json(const MetricsRequest& request, const std::vector<UsageSample>& samples) {
  if (samples.empty()) {
    return Json::object({{"status", "missing"}});
  }
  const auto age_ms = std::max<std::int64_t>(0, request.end - samples.back().at);
  return Json::object({{"newest_observed_at", rfc3339(samples.back().at)},
                       {"age_seconds", static_cast<double>(age_ms) / 1000},
                       {"status", age_ms <= kMaxFreshMs ? "fresh" : "stale"}});
}

Json current_json(const std::vector<UsageSample>& samples) {
  if (samples.empty()) {
    return Json{nullptr};
  }
  const UsageSample& now = samples.back();
  const auto before = samples.size() > 1 ? samples[samples.size() - 2] : now;
  return Json::object({{"time", rfc3339(now.at)},
                       {"cpu_seconds", number(now.cpu_nanoseconds) / 1e9},
                       {"cpu_cores", neighbours(before, now) ? cores(before, now) : 0.0},
                       {"cpu_limit_cores", limit_cores(now)},
                       {"memory_bytes", now.memory_bytes},
                       {"memory_working_set_bytes", now.working_set_bytes},
                       {"memory_peak_bytes", now.memory_peak_bytes},
                       {"memory_limit_bytes", now.limits.memory_bytes},
                       {"disk_bytes", now.disk_bytes},
                       {"disk_limit_bytes", now.limits.disk_bytes},
                       {"process_count", now.process_count},
                       {"process_limit", now.limits.process_count}});
}

bool is_known(std::string_view name) {
  return std::ranges::find(kMetrics, name, &Metric::name) != kMetrics.end() ||
         std::ranges::find(kUnsupported, name) != kUnsupported.end();
}

Result<> parse_names(std::string_view text, std::vector<std::string>& names) {
  for (const auto name : split(text, ',')) {
    if (!is_known(trim(name))) {
      return fail(Code::kInvalidArgument,
                  concat("query parameter \"metrics\" has \"", to_valid_utf8(name),
                         "\"; .../metrics/catalog lists what there is"));
    }
    names.emplace_back(trim(name));
  }
  return {};
}

}  // namespace

Json metrics_catalog_json() {
  Json metrics = Json::array();
  for (const auto& metric : kMetrics) {
    metrics.push(Json::object({{"name", metric.name},
                               {"kind", metric.kind},
                               {"unit", metric.unit},
                               {"dimensions", Json::array()},
                               {"description", metric.description}}));
  }
  return Json::object({{"metrics", std::move(metrics)}});
}

Result<MetricsRequest> parse_metrics(std::string_view query, UnixMillis now) {
  TRY_DO(allow_query(
      query, {"start_time", "end_time", "metrics", "step_seconds", "statistic", "max_points"}));
  MetricsRequest request;
  TRY(const auto start, query_time(query, "start_time"));
  TRY(const auto end, query_time(query, "end_time"));
  request.end = end.value_or(now);
  request.start = start.value_or(request.end - kDefaultRangeMs);
  if (request.start >= request.end || request.end - request.start > kMaxRangeMs) {
    return fail(Code::kInvalidArgument, "start_time must be before end_time, by at most 30 days");
  }
  TRY(const auto max_points, query_integer(query, "max_points", 1, 1000));
  TRY(const auto step, query_integer(query, "step_seconds", 1, 86'400));
  const auto range_seconds = (request.end - request.start) / 1000;
  request.step_seconds =
      std::max({step.value_or(1), kMinStepSeconds, range_seconds / max_points.value_or(240)});
  if (const auto text = http::query_value(query, "statistic")) {
    const auto* const found = std::ranges::find(kStatistics, *text);
    if (found == kStatistics.end()) {
      return fail(Code::kInvalidArgument,
                  "query parameter \"statistic\" must be one of auto, average, minimum, maximum, "
                  "last, rate");
    }
    request.statistic = static_cast<MetricStatistic>(found - kStatistics.begin());
  }
  if (const auto text = http::query_value(query, "metrics"); text && !text->empty()) {
    TRY_DO(parse_names(*text, request.names));
  }
  return request;
}

Json metrics_json(const MetricsRequest& request, const std::vector<UsageSample>& samples) {
  const auto wanted = [&](std::string_view name) {
    return request.names.empty() || std::ranges::find(request.names, name) != request.names.end();
  };
  Json series = Json::array();
  Json gaps = Json::array();
  for (const auto& metric : kMetrics) {
    if (!wanted(metric.name)) {
      continue;
    }
    if (samples.empty()) {
      gaps.push(gap_json(metric.name, request, "no_data"));
    } else {
      series.push(series_json(metric, request, samples));
    }
  }
  for (const auto name : kUnsupported) {
    if (!request.names.empty() && wanted(name)) {
      gaps.push(gap_json(name, request, "unsupported"));
    }
  }
  return Json::object({{"start_time", rfc3339(request.start)},
                       {"end_time", rfc3339(request.end)},
                       {"step_seconds", request.step_seconds},
                       {"series", std::move(series)},
                       {"freshness", freshness_json(request, samples)},
                       {"gaps", std::move(gaps)},
                       {"partial", samples.empty()},
                       {"current", current_json(samples)}});
}

}  // namespace atl::service::native
