#include "service/e2b/e2b_routes.h"

#include "base/strings.h"

namespace atl::service::e2b {
namespace {

Task<> refuse(Error error) {
  co_return fail(std::move(error));
}

// The router only ever sees exchanges that E2bApi made.
E2bExchange& own(http::Exchange& exchange) {
  return static_cast<E2bExchange&>(exchange);
}

Result<> admit(control::Identity& identity, control::Permission permission, E2bExchange& exchange) {
  const auto key = key_of(exchange.request().headers);
  if (key.empty()) {
    return fail(Code::kUnauthenticated, "an API key is needed, in the header X-API-KEY");
  }
  TRY(auto principal, identity.authenticate(key));
  const bool may = principal.may(permission);
  exchange.authenticate_as(std::move(principal));
  if (!may) {
    return fail(Code::kPermissionDenied, concat("the roles of this API key do not allow ",
                                                control::permission_name(permission)));
  }
  return {};
}

}  // namespace

std::string_view key_of(const http::Headers& headers) {
  if (const auto key = trim(headers.get("X-API-Key")); !key.empty()) {
    return key;
  }
  constexpr std::string_view kScheme = "bearer ";
  const auto authorization = headers.get("Authorization");
  return equals_ignore_case(authorization.substr(0, kScheme.size()), kScheme)
             ? trim(authorization.substr(kScheme.size()))
             : std::string_view{};
}

void E2bRoutes::add(std::string_view method, std::string_view pattern,
                    control::Permission permission, E2bHandler handler) {
  router_.add(method, pattern,
              [this, permission, handler = std::move(handler)](
                  http::Exchange& any, const http::PathParameters& parameters) {
                E2bExchange& exchange = own(any);
                if (auto admitted = admit(identity_, permission, exchange); !admitted) {
                  return refuse(std::move(admitted).error());
                }
                return handler(exchange, parameters);
              });
}

void E2bRoutes::add_public(std::string_view method, std::string_view pattern, E2bHandler handler) {
  router_.add(method, pattern,
              [handler = std::move(handler)](http::Exchange& exchange,
                                             const http::PathParameters& parameters) {
                return handler(own(exchange), parameters);
              });
}

std::string parameter(const http::PathParameters& parameters, std::string_view name) {
  const auto found = parameters.find(name);
  CHECK(found != parameters.end());
  return found->second;
}

}  // namespace atl::service::e2b
