#include "service/e2b/lenient_fields.h"

#include "base/strings.h"

namespace atl::service::e2b {

Task<Json> read_body(http::Body& body) {
  CO_TRY(Json value, co_await native::read_optional_json(body));
  CO_TRY_DO(require_object(value, "the body"));
  co_return std::move(value);
}

Result<LenientFields> LenientFields::of(const Json& value, std::string where,
                                        std::initializer_list<std::string_view> known) {
  TRY_DO(require_object(value, where.empty() ? "the body" : where));
  auto kept = std::make_unique<Json>(Json::object());
  for (const std::string_view name : known) {
    if (const Json* member = value.find(name)) {
      kept->set(name, *member);
    }
  }
  TRY(auto fields, Fields::of(*kept, std::move(where), known));
  return LenientFields{std::move(kept), std::move(fields)};
}

}  // namespace atl::service::e2b
