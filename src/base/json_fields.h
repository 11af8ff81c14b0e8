// Strict reading of JSON objects: unknown fields and wrong types are refused by name.
//
// A typo that is silently ignored costs an afternoon, so the message names the field, what it is
// and what would be right. A JSON null counts as absent.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace atl {

class Fields {
 public:
  // `where` is the path of the object in the body ("" or "config"). Borrows the value, which may be
  // anything: what is no object is refused.
  static Result<Fields> of(const Json& value, std::string where,
                           std::initializer_list<std::string_view> allowed);
  // The object in a field, or an empty one when it is absent.
  Result<Fields> object(std::string_view name,
                        std::initializer_list<std::string_view> allowed) const;

  // "config.ttl": for messages about a field.
  std::string path(std::string_view name) const;
  bool has(std::string_view name) const { return value_->find(name) != nullptr; }
  Result<std::optional<std::string>> string(std::string_view name) const;
  Result<std::string> required_string(std::string_view name) const;
  Result<std::optional<bool>> boolean(std::string_view name) const;
  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t least,
                                              std::int64_t most) const;
  Result<std::optional<UnixMillis>> time(std::string_view name) const;  // RFC 3339
  Result<std::vector<std::string>> strings(std::string_view name) const;
  // The objects of an array; empty when it is absent.
  Result<std::vector<Fields>> objects(std::string_view name,
                                      std::initializer_list<std::string_view> allowed) const;
  Result<std::map<std::string, std::string, std::less<>>> string_map(std::string_view name) const;
  // Refuses fields of the contract that this build does not have yet, instead of ignoring them.
  Result<> refuse_missing_features(std::initializer_list<std::string_view> names) const;

 private:
  Fields(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}
  std::unexpected<Error> wrong(std::string_view name, std::string_view must_be) const;

  const Json* value_;
  std::string where_;
};

// kInvalidArgument when the value is no object; `what` names it.
Result<> require_object(const Json& value, std::string_view what);

}  // namespace atl
