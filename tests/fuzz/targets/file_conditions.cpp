// Conditional requests: a list of ETags is read the same by reads and writes, and dates that are
// read are written back as they were.
#include "service/native/file_conditions.h"

#include "base/strings.h"
#include "fuzz.h"

namespace atl::fuzz {

using service::native::Verdict;

void file_conditions(std::string_view input) {
  const guest::FileInfo file{.size = 3, .inode = 1, .changed_unix_ns = 2};
  const http::Headers match{{"If-Match", std::string{input}}};
  const http::Headers none_match{{"If-None-Match", std::string{input}}};
  const bool found = service::native::judge_read(match, file) == Verdict::kProceed;
  CHECK(found == (service::native::judge_write(match, file).verdict == Verdict::kProceed));
  // What matches strongly matches weakly.
  CHECK(!found || service::native::judge_read(none_match, file) == Verdict::kNotModified);
  (void)service::native::range_counts({{"If-Range", std::string{input}}}, file);
  (void)service::native::content_type_of(input);
  const auto date = service::native::parse_http_date(input);
  if (date && *date >= 0 && *date <= INT64_MAX / 1'000'000'000) {
    CHECK(service::native::parse_http_date(service::native::http_date(*date * 1'000'000'000)) ==
          date);
  }
}

Seeds file_conditions_seeds() {
  return {"*",
          "\"1-3-2\"",
          "W/\"1-3-2\", \"a,b\"",
          "\"x\" , ,\"1-3-2\"",
          "\"open",
          "Sun, 06 Nov 1994 08:49:37 GMT",
          "Sunday, 06-Nov-94 08:49:37 GMT",
          "Sun Nov  6 08:49:37 1994"};
}

}  // namespace atl::fuzz
