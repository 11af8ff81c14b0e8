#include "service/native/fields.h"

#include <algorithm>

#include "base/clock.h"
#include "base/strings.h"

namespace atl::service::native {
namespace {

constexpr std::size_t kMaxQueryPairs = 64;

}  // namespace

Task<Json> read_json(http::Body& body) {
  CO_TRY(const auto text, co_await http::read_all(body, kMaxJsonBodyBytes));
  if (trim(text).empty()) {
    co_return fail(Code::kInvalidArgument, "the request needs a JSON object as its body");
  }
  auto value = Json::parse(text);
  if (!value) {
    co_return fail(std::move(value).error().note("the body is not valid JSON"));
  }
  CO_TRY_DO(require_object(*value, "the body"));
  co_return *std::move(value);
}

Task<Json> read_optional_json(http::Body& body) {
  CO_TRY(const std::string text, co_await http::read_all(body, kMaxJsonBodyBytes));
  if (trim(text).empty()) {
    co_return Json::object();
  }
  co_return Json::parse(text);
}

Result<std::optional<std::int64_t>> query_integer(std::string_view query, std::string_view name,
                                                  std::int64_t least, std::int64_t most) {
  const auto text = http::query_value(query, name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = parse_i64(*text);
  if (!value || *value < least || *value > most) {
    return fail(Code::kInvalidArgument,
                concat("query parameter \"", name, "\" is \"", to_valid_utf8(*text),
                       "\", it must be from ", least, " to ", most));
  }
  return *value;
}

Result<std::optional<UnixMillis>> query_time(std::string_view query, std::string_view name) {
  const auto text = http::query_value(query, name);
  if (!text) {
    return std::nullopt;
  }
  const auto time = parse_rfc3339(*text);
  if (!time) {
    return fail(Code::kInvalidArgument,
                concat("query parameter \"", name, "\" is \"", to_valid_utf8(*text),
                       "\", it must be a time such as 2026-01-31T12:00:00Z"));
  }
  return time;
}

Result<std::vector<std::pair<std::string, std::string>>> query_pairs(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto part : split(query, '&')) {
    if (part.empty()) {
      continue;
    }
    const auto equals = part.find('=');
    auto name = http::percent_decode(part.substr(0, equals), true);
    auto value = equals == std::string_view::npos
                     ? std::optional<std::string>{""}
                     : http::percent_decode(part.substr(equals + 1), true);
    if (!name || !value || pairs.size() >= kMaxQueryPairs) {
      return fail(Code::kInvalidArgument, concat("the query is malformed or has more than ",
                                                 kMaxQueryPairs, " parameters"));
    }
    pairs.emplace_back(*std::move(name), *std::move(value));
  }
  return pairs;
}

Result<> allow_query(std::string_view query, std::initializer_list<std::string_view> allowed) {
  TRY(const auto pairs, query_pairs(query));
  for (const auto& [name, value] : pairs) {
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      std::string known;
      for (const auto candidate : allowed) {
        known += concat(known.empty() ? "" : ", ", candidate);
      }
      return fail(Code::kInvalidArgument, concat("unknown query parameter \"", to_valid_utf8(name),
                                                 "\"; allowed here: ", known));
    }
  }
  return {};
}

Result<bool> query_boolean(std::string_view query, std::string_view name) {
  const auto text = http::query_value(query, name);
  if (!text || *text == "false" || *text == "0") {
    return false;
  }
  if (*text == "true" || *text == "1" || text->empty()) {
    return true;
  }
  return fail(Code::kInvalidArgument,
              concat("query parameter \"", name, "\" must be true or false"));
}

}  // namespace atl::service::native
