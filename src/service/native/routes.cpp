#include "service/native/routes.h"

namespace atl::service::native {
namespace {

Task<> refuse(std::string_view what) {
  co_return fail(Code::kPermissionDenied, std::string{what});
}

constexpr std::string_view kSandboxPrefix = "/api/v1/sandboxes/{id}";

// Looking at a sandbox from outside is no use of it: a dashboard must not keep it alive.
bool only_looks(std::string_view method, std::string_view pattern) {
  const auto rest = pattern.substr(kSandboxPrefix.size());
  return (rest.empty() && method == "GET") || rest == "/status" || rest.starts_with("/metrics");
}

// The router only ever sees exchanges that NativeApi made.
NativeExchange& native(http::Exchange& exchange) {
  return static_cast<NativeExchange&>(exchange);
}

}  // namespace

void RouteTable::add(std::string_view method, std::string_view pattern,
                     control::Permission permission, NativeHandler handler) {
  const bool about_sandbox = pattern.starts_with(kSandboxPrefix);
  const bool uses = about_sandbox && !only_looks(method, pattern);
  router_.add(
      method, pattern,
      [sandboxes = &sandboxes_, permission, about_sandbox, uses, handler = std::move(handler)](
          http::Exchange& any, const http::PathParameters& parameters) {
        NativeExchange& exchange = native(any);
        if (!exchange.principal().may(permission)) {
          return refuse("the roles of this API key do not allow this");
        }
        if (about_sandbox) {
          exchange.concerns(parameter(parameters, "id"));
        }
        if (uses) {
          exchange.keep(sandboxes->use(exchange.principal().team_id, exchange.sandbox_id()));
        }
        return handler(exchange, parameters);
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
