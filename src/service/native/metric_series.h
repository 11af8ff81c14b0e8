// Samples of a sandbox's use as the time series of the contract, and ours beside them: the numbers
// of this moment under `current`.
#pragma once

#include <vector>

#include "base/json.h"
#include "control/sandbox_requests.h"

namespace atl::service::native {

enum class MetricStatistic : std::uint8_t { kAuto, kAverage, kMinimum, kMaximum, kLast, kRate };

struct MetricsRequest {
  UnixMillis start = 0;
  UnixMillis end = 0;
  std::int64_t step_seconds = 15;
  MetricStatistic statistic = MetricStatistic::kAuto;
  std::vector<std::string> names;  // empty: all we have
};

Json metrics_catalog_json();
Result<MetricsRequest> parse_metrics(std::string_view query, UnixMillis now);
// `samples` are of one sandbox, oldest first.
Json metrics_json(const MetricsRequest& request, const std::vector<control::UsageSample>& samples);

}  // namespace atl::service::native
