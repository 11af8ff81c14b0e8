// Counters, gauges and histograms with a Prometheus text rendering.
//
// Names are atoll_<room>_<noun>_<unit>[_total]; label sets are small and enumerated. A Metrics
// registry is owned by main and passed by reference; instruments live as long as it does and may
// be used from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace atl {

class Counter {
 public:
  void add(std::uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Seconds, in buckets shared by all histograms (10 µs to 100 s).
class Histogram {
 public:
  static constexpr std::array<double, 15> kBoundsSeconds{
      0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 100};
  void observe_seconds(double seconds);

 private:
  friend class Metrics;
  std::array<std::atomic<std::uint64_t>, kBoundsSeconds.size() + 1> buckets_{};
  std::atomic<std::uint64_t> sum_nanoseconds_{0};
};

class Metrics {
 public:
  // `labels` is literal Prometheus label text such as `code="not_found"`, or empty. Asking twice
  // for the same name and labels gives the same instrument.
  Counter& counter(std::string_view name, std::string_view help, std::string_view labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, std::string_view labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::string_view labels = {});
  std::string render() const;

 private:
  enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };
  struct Series {
    std::string labels;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    std::string name;
    std::string help;
    Type type;
    std::vector<std::unique_ptr<Series>> series;
  };
  Series& series(std::string_view name, std::string_view help, std::string_view labels, Type type);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Family>> families_;
};

}  // namespace atl
