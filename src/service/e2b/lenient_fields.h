// Bodies of E2B's clients: what they send that we do not know is ignored, because every release of
// them sends something new; what we know is read strictly (base/json_fields.h).
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/json_fields.h"
#include "http/message.h"
#include "service/native/fields.h"

namespace atl::service::e2b {

using native::query_integer;
using native::query_time;

// An object; an empty one when there is no body.
Task<Json> read_body(http::Body& body);

// A value of its own with fields of an object that are known by name.
class LenientFields {
 public:
  static Result<LenientFields> of(const Json& value, std::string where,
                                  std::initializer_list<std::string_view> known);
  const Fields* operator->() const { return &fields_; }
  const Fields& operator*() const { return fields_; }
  const Json& json() const { return *value_; }

 private:
  LenientFields(std::unique_ptr<const Json> value, Fields fields)
      : value_(std::move(value)), fields_(std::move(fields)) {}
  std::unique_ptr<const Json> value_;  // stays where it is when this is moved
  Fields fields_;
};

}  // namespace atl::service::e2b
