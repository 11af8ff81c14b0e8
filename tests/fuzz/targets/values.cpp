// Quantities, shares of a processor, times, signals and byte ranges.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/event_stream.h"
#include "control/resources.h"
#include "fuzz.h"
#include "service/native/byte_range.h"

namespace atl::fuzz {
namespace {

constexpr std::uint64_t kFileSizes[] = {0, 1, 10, 1ULL << 40, UINT64_MAX};

void check_quantities(std::string_view input) {
  if (const auto bytes = parse_quantity(input)) {
    CHECK(parse_quantity(format_quantity(*bytes)) == bytes);
  }
  if (const auto millis = control::parse_cpu_millis(input)) {
    CHECK(control::parse_cpu_millis(control::format_cpu_millis(*millis)) == millis);
  }
  if (const auto number = parse_u64(input)) {
    CHECK(parse_u64(concat(*number)) == number);
  }
  if (const auto number = parse_i64(input)) {
    CHECK(parse_i64(concat(*number)) == number);
  }
  const auto text = std::string{input};
  (void)control::decide_limits({}, {.memory = text, .cpu = text, .disk = text});
}

void check_time(std::string_view input) {
  constexpr UnixMillis kYear10000 = 253'402'300'800'000;  // has no form of its own any more
  if (const auto time = parse_rfc3339(input); time && *time >= 0 && *time < kYear10000) {
    CHECK(parse_rfc3339(format_unix_millis(*time)) == time);
  }
}

void check_range(std::string_view input) {
  const auto range = service::native::parse_byte_range(input);
  if (!range) {
    return;
  }
  CHECK(range->first || range->last);
  for (const auto size : kFileSizes) {
    if (const auto slice = service::native::resolve_range(*range, size)) {
      CHECK(slice->length > 0 && slice->offset < size && slice->length <= size - slice->offset);
    }
  }
}

}  // namespace

void values(std::string_view input) {
  check_quantities(input);
  check_time(input);
  check_range(input);
  if (const auto signal = cli::parse_signal(input)) {
    CHECK(cli::parse_signal(cli::signal_name(*signal)) == signal);
  }
}

Seeds values_seeds() {
  return {"1Gi",
          "1.5Gi",
          "512Mi",
          "2G",
          "1048576",
          "0.1Ki",
          "1e3",
          "16Ei",
          "18446744073709551615",
          "18446744073709551616",
          "500m",
          "2",
          "1.25",
          "0",
          "-1",
          "+1",
          "2026-11-15T08:22:51.123Z",
          "2026-11-15T08:22:51+05:30",
          "9999-12-31T23:59:59.999Z",
          "2026-02-30T00:00:00Z",
          "2024-02-29T00:00:00-23:59",
          "bytes=0-",
          "bytes=-5",
          "bytes=3-1",
          "bytes=0-18446744073709551615",
          "bytes=18446744073709551615-",
          "bytes=1-2,3-4",
          "bytes=-0",
          "SIGKILL",
          "TERM",
          "64",
          "65"};
}

}  // namespace atl::fuzz
