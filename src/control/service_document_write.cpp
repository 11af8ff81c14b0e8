// The other direction: services as the document that parse_services() reads.
#include "base/strings.h"
#include "control/service_document.h"

namespace atl::control {
namespace {

Json strings_json(const std::vector<std::string>& values) {
  Json array = Json::array();
  for (const auto& value : values) {
    array.push(value);
  }
  return array;
}

Json auth_json(const RouteAuth& auth) {
  switch (auth.mode) {
    case RouteAuth::Mode::kBearer:
      return Json::object({{"mode", "bearer"}, {"bearer_token_sha256", hex(auth.sha256)}});
    case RouteAuth::Mode::kHeader:
      return Json::object({{"mode", "header"},
                           {"header_name", auth.header_name},
                           {"header_value_sha256", hex(auth.sha256)}});
    case RouteAuth::Mode::kNone:
      break;
  }
  return Json::object({{"mode", "none"}});
}

Json cors_json(const RouteCors& cors) {
  return Json::object({{"allowed_origins", strings_json(cors.allowed_origins)},
                       {"allowed_methods", strings_json(cors.allowed_methods)},
                       {"allowed_headers", strings_json(cors.allowed_headers)},
                       {"expose_headers", strings_json(cors.expose_headers)},
                       {"allow_credentials", cors.allow_credentials},
                       {"max_age_seconds", cors.max_age_seconds}});
}

Json route_json(const ServiceRoute& route) {
  Json json = Json::object({{"id", route.id},
                            {"path_prefix", route.path_prefix},
                            {"auth", auth_json(route.auth)},
                            {"resume", route.resume}});
  if (!route.methods.empty()) {
    json.set("methods", strings_json(route.methods));
  }
  if (route.rewrite_prefix) {
    json.set("rewrite_prefix", *route.rewrite_prefix);
  }
  if (route.cors) {
    json.set("cors", cors_json(*route.cors));
  }
  if (route.rate) {
    json.set("rate_limit",
             Json::object({{"rps", route.rate->per_second}, {"burst", route.rate->burst}}));
  }
  if (route.timeout_seconds > 0) {
    json.set("timeout_seconds", route.timeout_seconds);
  }
  return json;
}

Json function_json(const ServiceFunction& function) {
  const bool python = function.language == ServiceFunction::Language::kPython;
  return Json::object({{"runtime", python ? "python" : "javascript"},
                       {"handler", function.handler},
                       {"max_concurrency", function.max_concurrency},
                       {"source", Json::object({{"type", "inline"}, {"code", function.code}})}});
}

Json runtime_json(const Service& service) {
  Json json = Json::object({{"type", service.runtime == Service::Runtime::kCommand    ? "cmd"
                                     : service.runtime == Service::Runtime::kFunction ? "function"
                                                                                      : "manual"}});
  if (!service.command.empty()) {
    json.set("command", strings_json(service.command));
  }
  if (!service.cwd.empty()) {
    json.set("cwd", service.cwd);
  }
  if (!service.env.empty()) {
    Json env = Json::object();
    for (const auto& [name, value] : service.env) {
      env.set(name, value);
    }
    json.set("env_vars", std::move(env));
  }
  if (service.function) {
    json.set("function", function_json(*service.function));
  }
  return json;
}

}  // namespace

Json service_json(const Service& service) {
  Json routes = Json::array();
  for (const ServiceRoute& route : service.routes) {
    routes.push(route_json(route));
  }
  Json json = Json::object({{"id", service.id}, {"port", service.port}});
  if (!service.display_name.empty()) {
    json.set("display_name", service.display_name);
  }
  if (service.runtime != Service::Runtime::kNone) {
    json.set("runtime", runtime_json(service));
  }
  json.set("ingress", Json::object({{"public", service.is_public}, {"routes", std::move(routes)}}));
  if (!service.health_path.empty()) {
    json.set("health_check", Json::object({{"path", service.health_path}}));
  }
  return json;
}

Json services_json(const std::vector<Service>& services) {
  Json array = Json::array();
  for (const Service& service : services) {
    array.push(service_json(service));
  }
  return array;
}

}  // namespace atl::control
