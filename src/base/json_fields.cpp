#include "base/json_fields.h"

#include <algorithm>

#include "base/strings.h"

namespace atl {
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

}  // namespace

Result<> require_object(const Json& value, std::string_view what) {
  if (value.as_object() == nullptr) {
    return fail(Code::kInvalidArgument,
                concat(what, " must be a JSON object, not ", type_name(value)));
  }
  return {};
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

Result<std::map<std::string, std::string, std::less<>>> Fields::string_map(
    std::string_view name) const {
  const Json* member = value_->find(name);
  std::map<std::string, std::string, std::less<>> values;
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

}  // namespace atl
