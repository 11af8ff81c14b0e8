#include "service/native/fields.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::service::native {
namespace {

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
