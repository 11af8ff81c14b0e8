#include "control/service_document.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

constexpr std::initializer_list<std::string_view> kServiceFields{
    "id",           "display_name", "port",       "runtime",         "ingress",
    "health_check", "publishable",  "public_url", "publish_blockers"};

std::unexpected<Error> refuse(const Fields& fields, std::string_view name, std::string_view what) {
  return fail(Code::kInvalidArgument, concat("field \"", fields.path(name), "\": ", what));
}

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// A DNS label.
bool is_label(std::string_view text) {
  const auto good = [](char c) { return is_lower_alnum(c) || c == '-'; };
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, good) &&
         is_lower_alnum(text.front()) && is_lower_alnum(text.back());
}

bool is_token(std::string_view text) {
  const auto good = [](char c) {
    return is_lower_alnum(c) || (c >= 'A' && c <= 'Z') ||
           std::string_view{"!#$%&'*+-.^_`|~"}.contains(c);
  };
  return !text.empty() && text.size() <= 256 && std::ranges::all_of(text, good);
}

// An absolute path as it stands in a request line: no query, no blanks, no dots that go up.
bool is_path(std::string_view text) {
  const auto good = [](char c) { return c > 0x20 && c < 0x7F && c != '?' && c != '#'; };
  if (!text.starts_with('/') || text.size() > kMaxServicePathBytes ||
      !std::ranges::all_of(text, good)) {
    return false;
  }
  return std::ranges::none_of(split(text, '/'),
                              [](std::string_view part) { return part == "." || part == ".."; });
}

bool is_hex_sha256(std::string_view text) {
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  return text.size() == 64 && std::ranges::all_of(text, good);
}

std::string unhex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  }
  return bytes;
}

Result<std::string> read_sha256(const Fields& fields, std::string_view name) {
  TRY(const auto text, fields.required_string(name));
  if (!is_hex_sha256(text)) {
    return refuse(fields, name, "must be a SHA-256 in 64 hexadecimal digits");
  }
  return unhex(text);
}

Result<RouteAuth> read_auth(const Fields& route) {
  RouteAuth auth;
  TRY(const auto fields,
      route.object("auth", {"mode", "bearer_token_sha256", "header_name", "header_value_sha256"}));
  TRY(const auto mode, fields.string("mode"));
  if (!mode || *mode == "none") {
    return auth;
  }
  if (*mode == "bearer") {
    auth.mode = RouteAuth::Mode::kBearer;
    TRY(auth.sha256, read_sha256(fields, "bearer_token_sha256"));
  } else if (*mode == "header") {
    auth.mode = RouteAuth::Mode::kHeader;
    TRY(auth.header_name, fields.required_string("header_name"));
    if (!is_token(auth.header_name)) {
      return refuse(fields, "header_name", "must be the name of a header");
    }
    TRY(auth.sha256, read_sha256(fields, "header_value_sha256"));
  } else {
    return refuse(fields, "mode", "must be none, bearer or header");
  }
  return auth;
}

Result<std::vector<std::string>> read_cors_list(const Fields& fields, std::string_view name,
                                                bool tokens) {
  TRY(auto values, fields.strings(name));
  const auto usable = [tokens](const std::string& value) {
    const auto visible = [](char c) { return c > 0x20 && c < 0x7F && c != ','; };
    return tokens ? is_token(value)
                  : !value.empty() && value.size() <= 256 && std::ranges::all_of(value, visible);
  };
  if (values.size() > kMaxCorsValues || !std::ranges::all_of(values, usable)) {
    return refuse(fields, name,
                  concat("takes at most ", kMaxCorsValues, " values without blanks and commas"));
  }
  return values;
}

Result<std::optional<RouteCors>> read_cors(const Fields& route) {
  if (!route.has("cors")) {
    return std::nullopt;
  }
  TRY(const auto fields,
      route.object("cors", {"allowed_origins", "allowed_methods", "allowed_headers",
                            "expose_headers", "allow_credentials", "max_age_seconds"}));
  RouteCors cors;
  TRY(cors.allowed_origins, read_cors_list(fields, "allowed_origins", false));
  TRY(cors.allowed_methods, read_cors_list(fields, "allowed_methods", true));
  TRY(cors.allowed_headers, read_cors_list(fields, "allowed_headers", true));
  TRY(cors.expose_headers, read_cors_list(fields, "expose_headers", true));
  TRY(const auto credentials, fields.boolean("allow_credentials"));
  TRY(const auto age, fields.integer("max_age_seconds", 0, 86'400));
  cors.allow_credentials = credentials.value_or(false);
  cors.max_age_seconds = age.value_or(0);
  return cors;
}

Result<std::optional<RouteRate>> read_rate(const Fields& route) {
  if (!route.has("rate_limit")) {
    return std::nullopt;
  }
  TRY(const auto fields, route.object("rate_limit", {"rps", "burst"}));
  TRY(const auto rate, fields.integer("rps", 1, kMaxRouteRate));
  TRY(const auto burst, fields.integer("burst", 1, kMaxRouteRate));
  if (!rate) {
    return refuse(fields, "rps", "is needed: requests per second");
  }
  return RouteRate{*rate, burst.value_or(*rate)};
}

Result<ServiceRoute> read_route(const Fields& fields) {
  ServiceRoute route;
  TRY(route.id, fields.required_string("id"));
  if (!is_label(route.id)) {
    return refuse(fields, "id", "must be 1 to 63 of a-z, 0-9 and '-'");
  }
  TRY(const auto prefix, fields.string("path_prefix"));
  route.path_prefix = prefix && !prefix->empty() ? *prefix : "/";
  TRY(route.rewrite_prefix, fields.string("rewrite_prefix"));
  if (!is_path(route.path_prefix)) {
    return refuse(fields, "path_prefix", "must be an absolute path");
  }
  if (route.rewrite_prefix && !is_path(*route.rewrite_prefix)) {
    return refuse(fields, "rewrite_prefix", "must be an absolute path");
  }
  TRY(const auto methods, fields.strings("methods"));
  for (const auto& method : methods) {
    if (!is_token(method) || methods.size() > kMaxServiceMethods) {
      return refuse(fields, "methods",
                    concat("takes at most ", kMaxServiceMethods, " methods, such as GET and POST"));
    }
    std::string upper = method;
    std::ranges::transform(upper, upper.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    route.methods.push_back(std::move(upper));
  }
  TRY(route.auth, read_auth(fields));
  TRY(route.cors, read_cors(fields));
  TRY(route.rate, read_rate(fields));
  TRY(const auto timeout, fields.integer("timeout_seconds", 0, kMaxRouteTimeoutSeconds));
  route.timeout_seconds = timeout.value_or(0);
  TRY(const auto resume, fields.boolean("resume"));
  route.resume = resume.value_or(false);
  return route;
}

Result<> read_ingress(const Fields& fields, Service& service) {
  if (!fields.has("ingress")) {
    return refuse(fields, "ingress", "is needed, for example {\"public\": true}");
  }
  TRY(const auto ingress, fields.object("ingress", {"public", "routes"}));
  TRY(const auto is_public, ingress.boolean("public"));
  service.is_public = is_public.value_or(false);
  TRY(const auto routes,
      ingress.objects("routes", {"id", "path_prefix", "methods", "rewrite_prefix", "auth", "cors",
                                 "rate_limit", "timeout_seconds", "resume"}));
  if (routes.size() > kMaxServiceRoutes) {
    return refuse(ingress, "routes", concat("has more than ", kMaxServiceRoutes, " routes"));
  }
  std::set<std::string> ids;
  for (const Fields& each : routes) {
    TRY(auto route, read_route(each));
    if (!ids.insert(route.id).second) {
      return refuse(each, "id", concat("\"", route.id, "\" is there twice"));
    }
    service.routes.push_back(std::move(route));
  }
  if (service.is_public && service.routes.empty()) {
    service.routes.push_back(
        {.id = service.id, .resume = service.runtime != Service::Runtime::kManual});
  }
  return {};
}

Result<ServiceFunction> read_function(const Fields& runtime) {
  TRY(const auto fields,
      runtime.object("function", {"runtime", "handler", "max_concurrency", "source"}));
  ServiceFunction function;
  TRY(const auto language, fields.required_string("runtime"));
  if (language == "javascript") {
    function.language = ServiceFunction::Language::kJavascript;
  } else if (language != "python") {
    return refuse(fields, "runtime", "must be python or javascript");
  }
  TRY(const auto handler, fields.string("handler"));
  function.handler = handler && !handler->empty() ? *handler : "handler";
  const auto in_name = [](char c) {
    return is_lower_alnum(c) || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (function.handler.size() > 128 || !std::ranges::all_of(function.handler, in_name)) {
    return refuse(fields, "handler", "must be the name of a function");
  }
  TRY(const auto concurrency, fields.integer("max_concurrency", 0, kMaxFunctionConcurrency));
  function.max_concurrency = concurrency.value_or(0);
  TRY(const auto source, fields.object("source", {"type", "code"}));
  TRY(const auto type, source.required_string("type"));
  if (type != "inline") {
    return refuse(source, "type", "must be inline");
  }
  TRY(function.code, source.required_string("code"));
  if (function.code.size() > kMaxFunctionBytes) {
    return refuse(source, "code", concat("has more than ", kMaxFunctionBytes, " bytes"));
  }
  return function;
}

Result<> read_runtime(const Fields& fields, Service& service) {
  if (!fields.has("runtime")) {
    return {};
  }
  TRY(const auto runtime,
      fields.object("runtime", {"type", "command", "cwd", "env_vars", "function"}));
  TRY(const auto type, runtime.required_string("type"));
  if (type == "manual") {
    service.runtime = Service::Runtime::kManual;
  } else if (type == "cmd") {
    service.runtime = Service::Runtime::kCommand;
  } else if (type == "function") {
    service.runtime = Service::Runtime::kFunction;
  } else {
    return refuse(runtime, "type", "must be cmd, manual or function");
  }
  TRY(service.command, runtime.strings("command"));
  if (service.command.size() > kMaxServiceWords) {
    return refuse(runtime, "command", concat("has more than ", kMaxServiceWords, " words"));
  }
  TRY(const auto cwd, runtime.string("cwd"));
  service.cwd = cwd.value_or("");
  TRY(service.env, runtime.string_map("env_vars"));
  TRY_DO(validate_env(service.env, runtime.path("env_vars")));
  if (runtime.has("function")) {
    TRY(service.function, read_function(runtime));
  }
  return {};
}

Result<> read_port(const Fields& fields, Service& service) {
  TRY(const auto port, fields.integer("port", 0, 65'535));
  const bool function = service.runtime == Service::Runtime::kFunction;
  if (function) {
    if (port && *port != 0 && *port != kFunctionPort) {
      return refuse(fields, "port", "is left out for a function: it does not listen");
    }
    service.port = kFunctionPort;
    return {};
  }
  if (!port || *port == 0) {
    return refuse(fields, "port", "is needed: where the service listens, 1 to 65535");
  }
  if (*port == kFunctionPort) {
    return refuse(fields, "port", concat(kFunctionPort, " is reserved"));
  }
  service.port = static_cast<std::uint16_t>(*port);
  return {};
}

Result<Service> read_service(const Fields& fields) {
  Service service;
  TRY(service.id, fields.required_string("id"));
  if (!is_label(service.id)) {
    return refuse(fields, "id", "must be a DNS label: 1 to 63 of a-z, 0-9 and '-'");
  }
  TRY(const auto display_name, fields.string("display_name"));
  service.display_name = display_name.value_or("");
  if (service.display_name.size() > 256) {
    return refuse(fields, "display_name", "has more than 256 bytes");
  }
  TRY_DO(read_runtime(fields, service));
  TRY_DO(read_port(fields, service));
  TRY_DO(read_ingress(fields, service));
  TRY(const auto health, fields.object("health_check", {"path"}));
  TRY(const auto path, health.string("path"));
  service.health_path = path.value_or("");
  if (!service.health_path.empty() && !is_path(service.health_path)) {
    return refuse(health, "path", "must be an absolute path");
  }
  return service;
}

// Whoever starts a service by hand must be there when its sandbox goes on.
Result<> refuse_unattended_resume(const Fields& fields, const Service& service) {
  const bool resumes = std::ranges::any_of(service.routes, &ServiceRoute::resume);
  if (resumes && service.runtime == Service::Runtime::kManual) {
    return refuse(fields, "ingress.routes.resume", "needs the runtime cmd or function");
  }
  return {};
}

Result<std::vector<Service>> read_services(const Fields& fields, bool stored) {
  TRY(const auto objects, fields.objects("services", kServiceFields));
  if (objects.size() > kMaxServices) {
    return refuse(fields, "services", concat("has more than ", kMaxServices, " services"));
  }
  std::vector<Service> services;
  std::set<std::string> ids;
  std::set<std::uint16_t> ports;
  for (const Fields& each : objects) {
    TRY(auto service, read_service(each));
    if (!stored) {
      TRY_DO(refuse_unattended_resume(each, service));
    }
    if (!ids.insert(service.id).second) {
      return refuse(each, "id", concat("\"", service.id, "\" is there twice"));
    }
    if (service.port != kFunctionPort && !ports.insert(service.port).second) {
      return refuse(each, "port", concat(service.port, " has another service already"));
    }
    services.push_back(std::move(service));
  }
  return services;
}

}  // namespace

Result<std::vector<Service>> parse_services(const Fields& fields) {
  return read_services(fields, false);
}

Result<std::vector<Service>> parse_services(const Json& array) {
  const Json object = Json::object({{"services", array}});
  TRY(const auto fields, Fields::of(object, "", {"services"}));
  return read_services(fields, true);
}

std::vector<std::string> publish_blockers(const Service& service) {
  std::vector<std::string> blockers;
  if (!service.is_public) {
    blockers.emplace_back("not_public");
  }
  switch (service.runtime) {
    case Service::Runtime::kNone:
      blockers.emplace_back("missing_runtime");
      break;
    case Service::Runtime::kManual:
      blockers.emplace_back("manual_runtime");
      break;
    case Service::Runtime::kCommand:
      if (service.command.empty()) {
        blockers.emplace_back("missing_command");
      }
      break;
    case Service::Runtime::kFunction:
      if (!service.function) {
        blockers.emplace_back("missing_function");
      }
      break;
  }
  return blockers;
}

}  // namespace atl::control
