#include "base/clock.h"

#include "base/strings.h"

namespace atl {

std::string format_unix_millis(UnixMillis time) {
  std::int64_t seconds = time / 1000;
  std::int64_t milliseconds = time % 1000;
  if (milliseconds < 0) {
    milliseconds += 1000;
    --seconds;
  }
  // "…:51.123456789Z" -> "…:51.123Z"
  std::string text = format_rfc3339(seconds, static_cast<long>(milliseconds * 1000000));
  return text.erase(text.size() - 7, 6);
}

std::optional<UnixMillis> parse_rfc3339(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() <= kShape.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) {
      return std::nullopt;
    }
  }
  const auto number = [&](std::size_t at, std::size_t size) {
    return static_cast<int>(*parse_u64(text.substr(at, size)));
  };
  const std::chrono::year_month_day day{std::chrono::year{number(0, 4)},
                                        std::chrono::month{static_cast<unsigned>(number(5, 2))},
                                        std::chrono::day{static_cast<unsigned>(number(8, 2))}};
  if (!day.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 60) {
    return std::nullopt;
  }
  std::int64_t ms = std::chrono::sys_days{day}.time_since_epoch().count() * 86'400'000LL +
                    number(11, 2) * 3'600'000LL + number(14, 2) * 60'000LL + number(17, 2) * 1000LL;
  text.remove_prefix(kShape.size());
  if (text.starts_with('.')) {
    std::size_t digits = 0;
    for (int weight = 100;
         digits + 1 < text.size() && text[digits + 1] >= '0' && text[digits + 1] <= '9';
         weight /= 10, ++digits) {
      ms += std::int64_t{text[digits + 1] - '0'} * weight;
    }
    if (digits == 0) {
      return std::nullopt;
    }
    text.remove_prefix(digits + 1);
  }
  if (text == "Z" || text == "z") {
    return ms;
  }
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
    return std::nullopt;
  }
  const auto hours = parse_u64(text.substr(1, 2));
  const auto minutes = parse_u64(text.substr(4, 2));
  if (!hours || !minutes || *hours > 23 || *minutes > 59) {
    return std::nullopt;
  }
  const auto offset_ms = static_cast<std::int64_t>(*hours * 60 + *minutes) * 60'000;
  return text[0] == '+' ? ms - offset_ms : ms + offset_ms;
}

}  // namespace atl
