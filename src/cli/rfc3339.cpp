#include "cli/rfc3339.h"

#include <chrono>

#include "base/strings.h"

namespace atl::cli {
namespace {

// Takes `digits` digits from the front.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) {
    return std::nullopt;
  }
  const auto value = parse_u64(text.substr(0, digits));
  text.remove_prefix(digits);
  return value ? std::optional{static_cast<int>(*value)} : std::nullopt;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

int take_milliseconds(std::string_view& text) {
  int value = 0;
  int scale = 100;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    value += (text.front() - '0') * scale;
    scale /= 10;
    text.remove_prefix(1);
  }
  return value;
}

// "Z", "+02:00" -> minutes east.
std::optional<int> take_offset(std::string_view text) {
  if (text == "Z") {
    return 0;
  }
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
    return std::nullopt;
  }
  const int sign = text[0] == '-' ? -1 : 1;
  text.remove_prefix(1);
  const auto hours = take_number(text, 2);
  text.remove_prefix(1);
  const auto minutes = take_number(text, 2);
  return hours && minutes ? std::optional{sign * (*hours * 60 + *minutes)} : std::nullopt;
}

}  // namespace

std::optional<UnixMillis> parse_rfc3339_ms(std::string_view text) {
  const auto year = take_number(text, 4);
  const bool dash = take(text, '-');
  const auto month = take_number(text, 2);
  const bool dash_two = take(text, '-');
  const auto day = take_number(text, 2);
  const bool t = take(text, 'T');
  const auto hour = take_number(text, 2);
  const bool colon = take(text, ':');
  const auto minute = take_number(text, 2);
  const bool colon_two = take(text, ':');
  const auto second = take_number(text, 2);
  if (!year || !month || !day || !hour || !minute || !second || !dash || !dash_two || !t ||
      !colon || !colon_two) {
    return std::nullopt;
  }
  const int milliseconds = take(text, '.') ? take_milliseconds(text) : 0;
  const auto offset_minutes = take_offset(text);
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60 || !offset_minutes) {
    return std::nullopt;
  }
  const UnixMillis days = std::chrono::sys_days{date}.time_since_epoch().count();
  const UnixMillis seconds = ((days * 24 + *hour) * 60 + *minute - *offset_minutes) * 60 + *second;
  return seconds * 1000 + milliseconds;
}

}  // namespace atl::cli
