#include "service/e2b/sandboxes/list_request.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"
#include "http/message.h"
#include "service/e2b/lenient_fields.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

constexpr std::string_view kSeparator = "__";
constexpr std::string_view kAscending = "__asc";

std::unexpected<Error> bad_metadata() {
  return fail(Code::kInvalidArgument, "metadata must be key=value pairs, encoded for a query");
}

}  // namespace

std::string format_page_token(const PageToken& token) {
  std::string text = base64_encode(concat(native::rfc3339(token.at), kSeparator, token.id,
                                          token.ascending ? kAscending : std::string_view{}));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::optional<PageToken> parse_page_token(std::string_view text) {
  std::string standard{text};
  std::ranges::replace(standard, '-', '+');
  std::ranges::replace(standard, '_', '/');
  const auto decoded = base64_decode(standard);
  if (!decoded) {
    return std::nullopt;
  }
  PageToken token;
  std::string_view rest = *decoded;
  if (rest.ends_with(kAscending)) {
    token.ascending = true;
    rest.remove_suffix(kAscending.size());
  }
  const auto separator = rest.find(kSeparator);
  if (separator == std::string_view::npos) {
    return std::nullopt;
  }
  const auto at = parse_rfc3339(rest.substr(0, separator));
  token.id = rest.substr(separator + kSeparator.size());
  if (!at || token.id.size() > control::kMaxSandboxIdBytes) {
    return std::nullopt;
  }
  token.at = *at;
  return token;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_metadata(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto form = http::percent_decode(text, true);
  if (!form) {
    return bad_metadata();
  }
  for (const auto part : split(*form, '&')) {
    if (part.empty()) {
      continue;
    }
    const auto equals = part.find('=');
    auto key = http::percent_decode(part.substr(0, equals));
    auto value = http::percent_decode(equals == std::string_view::npos ? std::string_view{}
                                                                       : part.substr(equals + 1));
    if (!key || !value || pairs.size() >= control::kMaxLabels) {
      return bad_metadata();
    }
    pairs.emplace_back(*std::move(key), *std::move(value));
  }
  return pairs;
}

Result<> parse_page(std::string_view query, std::size_t& limit, std::optional<PageToken>& after) {
  TRY(const auto count, query_integer(query, "limit", 1, kMaxPage));
  limit = static_cast<std::size_t>(count.value_or(kMaxPage));
  if (const auto token = http::query_value(query, "nextToken"); token && !token->empty()) {
    after = parse_page_token(*token);
    if (!after) {
      return fail(Code::kInvalidArgument, "nextToken is none of ours");
    }
  }
  return {};
}

Result<ListQuery> parse_list_query(std::string_view query) {
  ListQuery list;
  TRY_DO(parse_page(query, list.limit, list.after));
  // Several are joined by commas, or the parameter is there several times.
  TRY(const auto pairs, native::query_pairs(query));
  bool any_state = false;
  list.running = false;
  for (const auto& [name, value] : pairs) {
    for (const auto state : split(name == "state" ? value : "", ',')) {
      if (state != "running" && state != "paused" && !state.empty()) {
        return fail(Code::kInvalidArgument, "state is running, paused or both");
      }
      any_state = any_state || !state.empty();
      list.running = list.running || state == "running";
      list.paused = list.paused || state == "paused";
    }
  }
  if (!any_state) {
    list.running = list.paused = true;
  }
  if (const auto metadata = http::query_value(query, "metadata")) {
    TRY(list.metadata, parse_metadata(*metadata));
  }
  list.template_name = http::query_value(query, "template").value_or("");
  TRY(list.started_after, query_time(query, "startedAfter"));
  const std::string order = http::query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc") {
    return fail(Code::kInvalidArgument, "order is asc or desc");
  }
  list.ascending = order == "asc";
  if (list.after && list.after->ascending != list.ascending) {
    return fail(Code::kInvalidArgument, "nextToken belongs to a list in the other order");
  }
  return list;
}

}  // namespace atl::service::e2b
