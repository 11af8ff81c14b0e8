#include "service/native/routes.h"

namespace atl::service::native {
namespace {

Task<> refuse(std::string_view what) {
  co_return fail(Code::kPermissionDenied, std::string{what});
}

// The router only ever sees exchanges that NativeApi made.
NativeExchange& native(http::Exchange& exchange) {
  return static_cast<NativeExchange&>(exchange);
}

}  // namespace

void RouteTable::add(std::string_view method, std::string_view pattern,
                     control::Permission permission, NativeHandler handler) {
  router_.add(method, pattern,
              [permission, handler = std::move(handler)](http::Exchange& exchange,
                                                         const http::PathParameters& parameters) {
                return native(exchange).principal().may(permission)
                           ? handler(native(exchange), parameters)
                           : refuse("the roles of this API key do not allow this");
              });
}

void RouteTable::add_public(std::string_view method, std::string_view pattern,
                            NativeHandler handler) {
  router_.add(method, pattern,
              [handler = std::move(handler)](http::Exchange& exchange,
                                             const http::PathParameters& parameters) {
                return handler(native(exchange), parameters);
              });
}

std::string parameter(const http::PathParameters& parameters, std::string_view name) {
  const auto found = parameters.find(name);
  CHECK(found != parameters.end());
  return found->second;
}

control::SandboxRef sandbox_ref(const NativeExchange& exchange,
                                const http::PathParameters& parameters) {
  return {exchange.principal().team_id, parameter(parameters, "id")};
}

}  // namespace atl::service::native
