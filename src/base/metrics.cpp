#include "base/metrics.h"

#include <charconv>

#include "base/error.h"
#include "base/strings.h"

namespace atl {
namespace {

std::string number(double value) {
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string with_labels(std::string_view name, std::string_view labels,
                        std::string_view extra = {}) {
  std::string out{name};
  if (!labels.empty() || !extra.empty()) {
    out += concat("{", labels, labels.empty() || extra.empty() ? "" : ",", extra, "}");
  }
  return out;
}

}  // namespace

void Histogram::observe_seconds(double seconds) {
  std::size_t bucket = 0;
  while (bucket < kBoundsSeconds.size() && seconds > kBoundsSeconds[bucket]) {
    ++bucket;
  }
  buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_nanoseconds_.fetch_add(static_cast<std::uint64_t>(seconds * 1e9), std::memory_order_relaxed);
}

Metrics::Series& Metrics::series(std::string_view name, std::string_view help,
                                 std::string_view labels, Type type) {
  const std::lock_guard lock{mutex_};
  Family* family = nullptr;
  for (auto& candidate : families_) {
    if (candidate->name == name) {
      family = candidate.get();
    }
  }
  if (family == nullptr) {
    families_.push_back(
        std::make_unique<Family>(Family{std::string{name}, std::string{help}, type, {}}));
    family = families_.back().get();
  }
  CHECK(family->type == type);
  for (auto& candidate : family->series) {
    if (candidate->labels == labels) {
      return *candidate;
    }
  }
  auto created = std::make_unique<Series>();
  created->labels = labels;
  switch (type) {
    case Type::kCounter:
      created->counter = std::make_unique<Counter>();
      break;
    case Type::kGauge:
      created->gauge = std::make_unique<Gauge>();
      break;
    case Type::kHistogram:
      created->histogram = std::make_unique<Histogram>();
      break;
  }
  family->series.push_back(std::move(created));
  return *family->series.back();
}

Counter& Metrics::counter(std::string_view name, std::string_view help, std::string_view labels) {
  return *series(name, help, labels, Type::kCounter).counter;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, std::string_view labels) {
  return *series(name, help, labels, Type::kGauge).gauge;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help,
                              std::string_view labels) {
  return *series(name, help, labels, Type::kHistogram).histogram;
}

std::string Metrics::render() const {
  const std::lock_guard lock{mutex_};
  std::string out;
  for (const auto& family : families_) {
    const std::string_view type = family->type == Type::kCounter ? "counter"
                                  : family->type == Type::kGauge ? "gauge"
                                                                 : "histogram";
    out += concat("# HELP ", family->name, " ", family->help, "\n# TYPE ", family->name, " ", type,
                  "\n");
    for (const auto& series : family->series) {
      if (series->counter) {
        out +=
            concat(with_labels(family->name, series->labels), " ", series->counter->value(), "\n");
      } else if (series->gauge) {
        out += concat(with_labels(family->name, series->labels), " ", series->gauge->value(), "\n");
      } else {
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < series->histogram->buckets_.size(); ++i) {
          total += series->histogram->buckets_[i].load(std::memory_order_relaxed);
          const std::string bound =
              i < Histogram::kBoundsSeconds.size() ? number(Histogram::kBoundsSeconds[i]) : "+Inf";
          out += concat(
              with_labels(family->name + "_bucket", series->labels, concat("le=\"", bound, "\"")),
              " ", total, "\n");
        }
        const auto sum = static_cast<double>(series->histogram->sum_nanoseconds_.load()) / 1e9;
        out += concat(with_labels(family->name + "_sum", series->labels), " ", number(sum), "\n",
                      with_labels(family->name + "_count", series->labels), " ", total, "\n");
      }
    }
  }
  return out;
}

}  // namespace atl
