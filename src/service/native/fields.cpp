#include "service/native/fields.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"

namespace atl::service::native {
namespace {

constexpr std::size_t kMaxQueryPairs = 64;

const Json& empty_object() {
  static const Json kEmpty = Json::object();
  return kEmpty;
}

std::string_view type_name(const Json& value) {
  if (value.as_bool() != nullptr) {
    return "a boolean";
  }
  if (value.as_string() != nullptr) {
    return "a string";
  }
  if (value.as_array() != nullptr) {
    return "an array";
  }
  if (value.as_object() != nullptr) {
    return "an object";
  }
  return value.is_null() ? "null" : "a number";
}

// Absent, or an empty list: SDKs send one for what their caller left out.
bool asks_for_nothing(const Json* value) {
  return value == nullptr || (value->as_array() != nullptr && value->as_array()->empty());
}

Result<> require_object(const Json& value, std::string_view what) {
  if (value.as_object() == nullptr) {
    return fail(Code::kInvalidArgument,
                concat(what, " must be a JSON object, not ", type_name(value)));
  }
  return {};
}

// "2026-01-31T12:00:00.5+01:00"; digits only where digits belong.
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
      ms += (text[digits + 1] - '0') * weight;
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

Result<Fields> Fields::of(const Json& value, std::string where,
                          std::initializer_list<std::string_view> allowed) {
  TRY_DO(require_object(value, where.empty() ? "the body" : where));
  Fields fields{value, std::move(where)};
  for (const auto& [name, member] : *value.as_object()) {
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      std::string known;
      for (const auto candidate : allowed) {
        known += concat(known.empty() ? "" : ", ", candidate);
      }
      return fail(Code::kInvalidArgument,
                  concat("unknown field \"", fields.path(name), "\"; allowed here: ", known));
    }
  }
  return fields;
}

Result<Fields> Fields::object(std::string_view name,
                              std::initializer_list<std::string_view> allowed) const {
  const Json* member = value_->find(name);
  if (member == nullptr) {
    return Fields{empty_object(), path(name)};
  }
  if (member->as_object() == nullptr) {
    return wrong(name, "an object");
  }
  return of(*member, path(name), allowed);
}

std::string Fields::path(std::string_view name) const {
  return where_.empty() ? std::string{name} : concat(where_, ".", name);
}

std::unexpected<Error> Fields::wrong(std::string_view name, std::string_view must_be) const {
  return fail(Code::kInvalidArgument,
              concat("field \"", path(name), "\" is ", type_name(*value_->find(name)),
                     ", it must be ", must_be));
}

Result<std::optional<std::string>> Fields::string(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  if (member->as_string() == nullptr) {
    return wrong(name, "a string");
  }
  return *member->as_string();
}

Result<std::string> Fields::required_string(std::string_view name) const {
  TRY(auto value, string(name));
  if (!value || value->empty()) {
    return fail(Code::kInvalidArgument, concat("field \"", path(name), "\" is required"));
  }
  return *std::move(value);
}

Result<std::optional<bool>> Fields::boolean(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  if (member->as_bool() == nullptr) {
    return wrong(name, "a boolean");
  }
  return *member->as_bool();
}

Result<std::optional<std::int64_t>> Fields::integer(std::string_view name, std::int64_t least,
                                                    std::int64_t most) const {
  const Json* member = value_->find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  if (member->as_integer() == nullptr) {
    return wrong(name, "a whole number");
  }
  const auto value = *member->as_integer();
  if (value < least || value > most) {
    return fail(Code::kInvalidArgument, concat("field \"", path(name), "\" is ", value,
                                               ", it must be from ", least, " to ", most));
  }
  return value;
}

Result<std::vector<std::string>> Fields::strings(std::string_view name) const {
  const Json* member = value_->find(name);
  std::vector<std::string> values;
  if (member == nullptr) {
    return values;
  }
  if (member->as_array() == nullptr) {
    return wrong(name, "an array of strings");
  }
  for (const auto& element : *member->as_array()) {
    if (element.as_string() == nullptr) {
      return fail(Code::kInvalidArgument,
                  concat("field \"", path(name), "\" has ", type_name(element),
                         " in it; all must be strings"));
    }
    values.push_back(*element.as_string());
  }
  return values;
}

Result<std::vector<Fields>> Fields::objects(std::string_view name,
                                            std::initializer_list<std::string_view> allowed) const {
  const Json* member = value_->find(name);
  std::vector<Fields> values;
  if (member == nullptr) {
    return values;
  }
  if (member->as_array() == nullptr) {
    return wrong(name, "an array of objects");
  }
  for (const auto& element : *member->as_array()) {
    if (element.as_object() == nullptr) {
      return fail(Code::kInvalidArgument,
                  concat("field \"", path(name), "\" has ", type_name(element),
                         " in it; all must be objects"));
    }
    TRY(auto fields, of(element, path(name), allowed));
    values.push_back(std::move(fields));
  }
  return values;
}

Result<std::optional<UnixMillis>> Fields::time(std::string_view name) const {
  TRY(const auto text, string(name));
  if (!text) {
    return std::nullopt;
  }
  const auto moment = parse_rfc3339(*text);
  if (!moment) {
    return wrong(name, "a time such as 2026-01-31T12:00:00Z");
  }
  return moment;
}

Result<control::StringMap> Fields::string_map(std::string_view name) const {
  const Json* member = value_->find(name);
  control::StringMap values;
  if (member == nullptr) {
    return values;
  }
  if (member->as_object() == nullptr) {
    return wrong(name, "an object of strings");
  }
  for (const auto& [key, value] : *member->as_object()) {
    if (value.as_string() == nullptr) {
      return fail(Code::kInvalidArgument, concat("field \"", path(name), ".", key, "\" is ",
                                                 type_name(value), ", it must be a string"));
    }
    values.emplace(key, *value.as_string());
  }
  return values;
}

Result<> Fields::refuse_missing_features(std::initializer_list<std::string_view> names) const {
  for (const auto name : names) {
    if (!asks_for_nothing(value_->find(name))) {
      return fail(Code::kInvalidArgument, concat("field \"", path(name),
                                                 "\" is not available in this build yet; leave it "
                                                 "out"));
    }
  }
  return {};
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
