// JSON as a plain value. Parsing is done by Boost.JSON's push parser inside json.cpp; the tree is
// ours so that no third-party header leaks. Objects keep their order; duplicate keys are refused,
// because two readers that disagree on which one counts is an attack.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace atl {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(double value) : value_(value) {}
  template <std::signed_integral T>
  Json(T value) : value_(static_cast<std::int64_t>(value)) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) : value_(static_cast<std::int64_t>(value)) {}
  Json(const char* value) : value_(std::string{value}) {}
  Json(std::string_view value) : value_(std::string{value}) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  static Json object() { return Json{Object{}}; }
  static Json array() { return Json{Array{}}; }
  // Json::object({{"a", 1}, {"b", "x"}})
  static Json object(Object members) { return Json{std::move(members)}; }

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&value_); }
  std::optional<double> as_number() const;
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  Array* as_array() { return std::get_if<Array>(&value_); }
  Object* as_object() { return std::get_if<Object>(&value_); }

  // The member, or nullptr when this is no object or has none (a JSON null counts as none).
  const Json* find(std::string_view key) const;
  Json& set(std::string_view key, Json value);  // REQUIRES: an object; replaces
  Json& push(Json value);                       // REQUIRES: an array
  std::string dump() const;                     // compact
  std::string dump_pretty() const;              // two-space indent, for people
  bool operator==(const Json&) const = default;

  // Fails with kInvalidArgument and a position. Depth at most 64.
  static Result<Json> parse(std::string_view text);

 private:
  explicit Json(Object value) : value_(std::move(value)) {}
  void write(std::string& out, int indent) const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

}  // namespace atl
