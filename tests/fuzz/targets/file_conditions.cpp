// Conditional requests for files: If-Match and its family, dates and entity tags of any shape. The
// input is the value of every one of these fields in turn.
#include "service/native/file_conditions.h"

#include <array>

#include "fuzz.h"

namespace atl::fuzz {

void file_conditions(std::string_view input) {
  namespace native = service::native;
  const guest::FileInfo info{
      .name = "a", .path = "/a", .size = 5, .modified_unix_ns = 784'111'777'000'000'000};
  constexpr std::array kFields{"If-Match", "If-None-Match", "If-Modified-Since",
                               "If-Unmodified-Since", "If-Range"};
  for (const auto* field : kFields) {
    http::Headers headers;
    headers.add(field, input);
    (void)native::judge_read(headers, info);
    (void)native::range_counts(headers, info);
    (void)native::judge_write(headers, info);
    (void)native::judge_write(headers, std::nullopt);
  }
  constexpr std::int64_t kLastSecond = INT64_MAX / 1'000'000'000;  // in nanoseconds
  const auto seconds = native::parse_http_date(input);
  if (seconds && *seconds >= 0 && *seconds < kLastSecond) {
    CHECK(native::parse_http_date(native::http_date(*seconds * 1'000'000'000)) == *seconds);
  }
  CHECK(!native::content_type_of(input).empty());
}

Seeds file_conditions_seeds() {
  return {"*",
          "\"a\"",
          "W/\"a\", \"b\" ,\"c",
          service::native::etag_of({.name = "a", .size = 5}),
          "Sun, 06 Nov 1994 08:49:37 GMT",
          "Sunday, 06-Nov-94 08:49:37 GMT",
          "Sun Nov  6 08:49:37 1994",
          "Sun, 99 Xyz 9999 99:99:99 GMT",
          "file.tar.gz",
          ".json"};
}

}  // namespace atl::fuzz
