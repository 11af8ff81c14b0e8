#include "service/native/routes.h"

#include "base/strings.h"

namespace atl::service::native {
namespace {

Task<> refuse(control::Permission permission) {
  co_return fail(Code::kPermissionDenied,
                 concat("the roles of this API key do not allow ", permission_name(permission)));
}

constexpr std::string_view kSandboxPrefix = "/api/v1/sandboxes/{id}";

// Looking at a sandbox from outside is no use of it: a dashboard must not keep it alive.
bool only_looks(std::string_view method, std::string_view pattern) {
  const auto rest = pattern.substr(kSandboxPrefix.size());
  return (rest.empty() && method == "GET") || rest == "/status" || rest == "/tree" ||
         (rest == "/services" && method == "GET") || rest.starts_with("/metrics") ||
         rest.starts_with("/network");
}

// The router only ever sees exchanges that NativeApi made.
NativeExchange& native(http::Exchange& exchange) {
  return static_cast<NativeExchange&>(exchange);
}

}  // namespace

void RouteTable::add(std::string_view method, std::string_view pattern,
                     control::Permission permission, NativeHandler handler) {
  entries_.push_back({std::string{method}, std::string{pattern}, permission});
  const bool about_sandbox = pattern.starts_with(kSandboxPrefix);
  const bool uses = about_sandbox && !only_looks(method, pattern);
  router_.add(
      method, pattern,
      [sandboxes = &sandboxes_, permission, about_sandbox, uses, handler = std::move(handler)](
          http::Exchange& any, const http::PathParameters& parameters) {
        NativeExchange& exchange = native(any);
        if (!exchange.principal().may(permission)) {
          return refuse(permission);
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

void RouteTable::add_public_get(std::string_view pattern, NativeHandler handler) {
  entries_.push_back({"GET", std::string{pattern}, std::nullopt});
  for (const auto* method : {"GET", "HEAD"}) {
    router_.add(method, pattern,
                [handler](http::Exchange& exchange, const http::PathParameters& parameters) {
                  return handler(native(exchange), parameters);
                });
  }
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
