// The query of a list: filters, order and page.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace atl::service::e2b {

inline constexpr std::int64_t kMaxPage = 100;

// A place in a list: after this one. The text is what E2B's own server makes: URL-safe base64 of
// {time}__{id}, with __asc behind in a list that begins with the oldest.
struct PageToken {
  UnixMillis at = 0;
  std::string id;
  bool ascending = false;
};
std::string format_page_token(const PageToken& token);
std::optional<PageToken> parse_page_token(std::string_view text);

struct ListQuery {
  bool running = true;
  bool paused = false;
  std::vector<std::pair<std::string, std::string>> metadata;  // all must match
  std::string template_name;                                  // as asked; empty: any
  std::optional<UnixMillis> started_after;                    // inclusive
  bool ascending = false;
  std::size_t limit = kMaxPage;
  std::optional<PageToken> after;
};
// Of GET /v2/sandboxes.
Result<ListQuery> parse_list_query(std::string_view query);
// The value of `metadata` after the usual decoding of a query: encoded once more as a whole and
// once more in each key and value.
Result<std::vector<std::pair<std::string, std::string>>> parse_metadata(std::string_view text);
// `limit` and `nextToken` of any list.
Result<> parse_page(std::string_view query, std::size_t& limit, std::optional<PageToken>& after);

}  // namespace atl::service::e2b
