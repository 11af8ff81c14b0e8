#include "service/native/file_conditions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/strings.h"

namespace atl::service::native {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kLastSecond = 253'402'300'799;  // of the year 9999

std::int64_t seconds_of(std::int64_t unix_ns) {
  const std::int64_t seconds = unix_ns / kSecondNs - (unix_ns % kSecondNs < 0 ? 1 : 0);
  return std::clamp<std::int64_t>(seconds, 0, kLastSecond);
}

std::string hex_number(std::uint64_t value) {
  std::array<char, 16> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16);
  return {text.data(), end.ptr};
}

// All lines of a name as one list.
std::string joined(const http::Headers& headers, std::string_view name) {
  std::string out;
  for (const auto& [key, value] : headers.lines()) {
    if (equals_ignore_case(key, name)) {
      out += concat(out.empty() ? "" : ",", value);
    }
  }
  return out;
}

enum class Comparison : bool { kWeak, kStrong };

// Whether a list like `"a", W/"b"` has the tag. What is no list has nothing.
bool list_has(std::string_view list, std::string_view etag, Comparison comparison) {
  for (;;) {
    while (!list.empty() && (list[0] == ' ' || list[0] == '\t' || list[0] == ',')) {
      list.remove_prefix(1);
    }
    const bool weak = list.starts_with("W/");
    list.remove_prefix(weak ? 2 : 0);
    const auto end = list.starts_with('"') ? list.find('"', 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      return false;
    }
    if (list.substr(0, end + 1) == etag && !(weak && comparison == Comparison::kStrong)) {
      return true;
    }
    list.remove_prefix(end + 1);
  }
}

bool is_any(std::string_view list) {
  return trim(list) == "*";
}

}  // namespace

std::string etag_of(const guest::FileInfo& info) {
  return concat("\"", hex_number(info.inode), "-", hex_number(info.size), "-",
                hex_number(static_cast<std::uint64_t>(info.changed_unix_ns)), "\"");
}

std::string http_date(std::int64_t unix_ns) {
  const std::time_t seconds = seconds_of(unix_ns);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text;
  const auto size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  const std::string copy{trim(text)};
  for (const char* format :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    std::tm parts{};
    const char* end = ::strptime(copy.c_str(), format, &parts);
    if (end != nullptr && *end == '\0') {
      return ::timegm(&parts);
    }
  }
  return std::nullopt;
}

bool has_conditions(const http::Headers& headers) {
  return headers.has("If-Match") || headers.has("If-None-Match") ||
         headers.has("If-Modified-Since") || headers.has("If-Unmodified-Since");
}

std::unexpected<Error> precondition_failed() {
  return fail(Code::kFailedPrecondition, "the file is not the version that was asked for",
              "precondition_failed");
}

// The order is RFC 9110's, 13.2.2.
Verdict judge_read(const http::Headers& headers, const guest::FileInfo& info) {
  const std::string etag = etag_of(info);
  const std::int64_t modified = seconds_of(info.modified_unix_ns);
  if (headers.has("If-Match")) {
    const std::string list = joined(headers, "If-Match");
    if (!is_any(list) && !list_has(list, etag, Comparison::kStrong)) {
      return Verdict::kFailed;
    }
  } else if (const auto date = parse_http_date(headers.get("If-Unmodified-Since"));
             date && modified > *date) {
    return Verdict::kFailed;
  }
  if (headers.has("If-None-Match")) {
    const std::string list = joined(headers, "If-None-Match");
    return is_any(list) || list_has(list, etag, Comparison::kWeak) ? Verdict::kNotModified
                                                                   : Verdict::kProceed;
  }
  const auto date = parse_http_date(headers.get("If-Modified-Since"));
  return date && modified <= *date ? Verdict::kNotModified : Verdict::kProceed;
}

bool range_counts(const http::Headers& headers, const guest::FileInfo& info) {
  if (!headers.has("If-Range")) {
    return true;
  }
  const auto value = trim(headers.get("If-Range"));
  if (value.starts_with('"') || value.starts_with("W/")) {
    return value == etag_of(info);
  }
  return parse_http_date(value) == seconds_of(info.modified_unix_ns);
}

WriteConditions judge_write(const http::Headers& headers,
                            const std::optional<guest::FileInfo>& existing) {
  WriteConditions conditions;
  const auto failed = [] { return WriteConditions{.verdict = Verdict::kFailed}; };
  if (headers.has("If-Match")) {
    const std::string list = joined(headers, "If-Match");
    if (!existing || (!is_any(list) && !list_has(list, etag_of(*existing), Comparison::kStrong))) {
      return failed();
    }
    if (!is_any(list)) {
      conditions.only_version =
          guest::FileVersion{existing->inode, existing->size, existing->changed_unix_ns};
    }
  } else if (const auto date = parse_http_date(headers.get("If-Unmodified-Since"));
             date && existing && seconds_of(existing->modified_unix_ns) > *date) {
    return failed();
  }
  if (headers.has("If-None-Match")) {
    const std::string list = joined(headers, "If-None-Match");
    conditions.only_new = is_any(list);
    if (existing && (is_any(list) || list_has(list, etag_of(*existing), Comparison::kWeak))) {
      return failed();
    }
  }
  return conditions;
}

std::string_view content_type_of(std::string_view path) {
  using Row = std::pair<std::string_view, std::string_view>;
  constexpr std::string_view kText = "text/plain; charset=utf-8";
  constexpr auto kTypes = std::to_array<Row>({
      {"bmp", "image/bmp"},
      {"c", kText},
      {"cc", kText},
      {"cfg", kText},
      {"conf", kText},
      {"cpp", kText},
      {"css", kText},
      {"csv", "text/csv"},
      {"diff", kText},
      {"gif", "image/gif"},
      {"go", kText},
      {"gz", "application/gzip"},
      {"h", kText},
      {"htm", kText},
      {"html", kText},
      {"ini", kText},
      {"java", kText},
      {"jpeg", "image/jpeg"},
      {"jpg", "image/jpeg"},
      {"js", kText},
      {"log", kText},
      {"lua", kText},
      {"md", kText},
      {"mp3", "audio/mpeg"},
      {"mp4", "video/mp4"},
      {"patch", kText},
      {"pdf", "application/pdf"},
      {"php", kText},
      {"png", "image/png"},
      {"py", kText},
      {"rb", kText},
      {"rs", kText},
      {"rst", kText},
      {"sh", kText},
      {"sql", kText},
      {"tar", "application/x-tar"},
      {"tex", kText},
      {"toml", kText},
      {"ts", kText},
      {"tsv", kText},
      {"tsx", kText},
      {"txt", kText},
      {"wav", "audio/wav"},
      {"webm", "video/webm"},
      {"webp", "image/webp"},
      {"xz", "application/x-xz"},
      {"yaml", kText},
      {"yml", kText},
      {"zip", "application/zip"},
      {"zst", "application/zstd"},
  });
  const auto dot = path.rfind('.');
  const auto slash = path.rfind('/');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) {
    return "application/octet-stream";
  }
  const std::string extension = to_lower(path.substr(dot + 1));
  const auto row = std::ranges::find(kTypes, std::string_view{extension}, &Row::first);
  return row == kTypes.end() ? "application/octet-stream" : row->second;
}

}  // namespace atl::service::native
