// The small grammars of option values: K=V, durations, places of `cp`.
#include <cmath>
#include <cstdlib>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/parse.h"

namespace atl::cli {
namespace {

constexpr std::uint64_t kMaxDurationMs = 366ULL * 24 * 3600 * 1000;

std::unexpected<Error> usage(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), kReasonUsage);
}

}  // namespace

Result<std::pair<std::string, std::string>> parse_env(std::string_view text) {
  const auto equals = text.find('=');
  const auto name = text.substr(0, equals);
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    return usage(concat("-e wants NAME=VALUE or NAME, not \"", text, "\""));
  }
  if (equals != std::string_view::npos) {
    return std::pair{std::string{name}, std::string{text.substr(equals + 1)}};
  }
  const char* value = std::getenv(std::string{name}.c_str());
  if (value == nullptr) {
    return usage(concat("-e ", name, ": there is no such variable here; give it a value with -e ",
                        name, "=VALUE"));
  }
  return std::pair{std::string{name}, std::string{value}};
}

Result<std::uint64_t> parse_duration_ms(std::string_view text) {
  std::string_view number = text;
  std::uint64_t unit_ms = 1000;
  if (number.ends_with("ms")) {
    number.remove_suffix(2);
    unit_ms = 1;
  } else if (!number.empty()) {
    switch (number.back()) {
      case 's':
        number.remove_suffix(1);
        break;
      case 'm':
        number.remove_suffix(1);
        unit_ms = 60'000;
        break;
      case 'h':
        number.remove_suffix(1);
        unit_ms = 3'600'000;
        break;
      case 'd':
        number.remove_suffix(1);
        unit_ms = 86'400'000;
        break;
      default:
        break;
    }
  }
  // strtod also reads hexadecimal, infinities and signs; a duration is digits and one point.
  const bool plain = !number.empty() && number.size() <= 18 &&
                     number.find_first_not_of("0123456789.") == std::string_view::npos;
  const std::string copy{number};
  char* end = nullptr;
  const double value = plain ? std::strtod(copy.c_str(), &end) : 0;
  const double milliseconds = std::ceil(value * static_cast<double>(unit_ms));
  if (!plain || end != copy.c_str() + copy.size() || milliseconds < 1 ||
      milliseconds > static_cast<double>(kMaxDurationMs)) {
    return usage(concat("\"", text, "\" is no duration; write seconds (30, 1.5) or 90s, 10m, 2h"));
  }
  return static_cast<std::uint64_t>(milliseconds);
}

CopyPlace parse_place(std::string_view text) {
  if (text == "-") {
    return {.kind = CopyPlace::Kind::kStandard, .sandbox_id = {}, .path = {}};
  }
  const auto colon = text.find(':');
  const auto slash = text.find('/');
  if (colon == std::string_view::npos || colon == 0 || slash < colon) {
    return {.kind = CopyPlace::Kind::kLocal, .sandbox_id = {}, .path = std::string{text}};
  }
  return {.kind = CopyPlace::Kind::kSandbox,
          .sandbox_id = std::string{text.substr(0, colon)},
          .path = std::string{text.substr(colon + 1)}};
}

}  // namespace atl::cli
