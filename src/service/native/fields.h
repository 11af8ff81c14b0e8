// Strict reading of JSON bodies: unknown fields and wrong types are refused by name.
//
// A typo that is silently ignored costs an afternoon, so the message names the field, what it is
// and what would be right. A JSON null counts as absent.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "control/sandboxes.h"
#include "http/message.h"

namespace atl::service::native {

inline constexpr std::size_t kMaxJsonBodyBytes = 1U << 20;

// The body as a JSON object; kInvalidArgument when it is none.
Task<Json> read_json(http::Body& body);
// The same for a body that may be left out: an empty object.
Task<Json> read_optional_json(http::Body& body);

class Fields {
 public:
  // `where` is the path of the object in the body ("" or "config"). Borrows the value, which may be
  // anything: what is no object is refused.
  static Result<Fields> of(const Json& value, std::string where,
                           std::initializer_list<std::string_view> allowed);
  // The object in a field, or an empty one when it is absent.
  Result<Fields> object(std::string_view name,
                        std::initializer_list<std::string_view> allowed) const;

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
  Result<control::StringMap> string_map(std::string_view name) const;
  // Refuses fields of the contract that this build does not have yet, instead of ignoring them.
  Result<> refuse_missing_features(std::initializer_list<std::string_view> names) const;

 private:
  Fields(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}
  std::string path(std::string_view name) const;
  std::unexpected<Error> wrong(std::string_view name, std::string_view must_be) const;

  const Json* value_;
  std::string where_;
};

// Query parameters, as strict: kInvalidArgument names the parameter.
Result<std::optional<std::int64_t>> query_integer(std::string_view query, std::string_view name,
                                                  std::int64_t least, std::int64_t most);
// RFC 3339, with any offset.
Result<std::optional<UnixMillis>> query_time(std::string_view query, std::string_view name);
// Every parameter, decoded, in order.
Result<std::vector<std::pair<std::string, std::string>>> query_pairs(std::string_view query);
// A parameter that is not in the list is refused by name: what it was meant to do would not happen.
Result<> allow_query(std::string_view query, std::initializer_list<std::string_view> allowed);
Result<bool> query_boolean(std::string_view query, std::string_view name);

}  // namespace atl::service::native
