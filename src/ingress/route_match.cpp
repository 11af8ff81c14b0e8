#include "ingress/route_match.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "egress/request_path.h"

namespace atl::ingress {
namespace {

using control::RouteAuth;
using control::Service;
using control::ServiceRoute;

std::string_view without_slash(std::string_view prefix) {
  return prefix.ends_with('/') ? prefix.substr(0, prefix.size() - 1) : prefix;
}

bool is_below(std::string_view path, std::string_view prefix) {
  const auto stem = without_slash(prefix);
  return path.starts_with(stem) && (path.size() == stem.size() || path[stem.size()] == '/');
}

bool allows(const ServiceRoute& route, std::string_view method) {
  return route.methods.empty() || std::ranges::find(route.methods, method) != route.methods.end();
}

template <class Visit>
void each_route(const control::SandboxServices& services, std::uint16_t port, Visit visit) {
  for (const Service& service : services.services) {
    if (service.is_public && service.port == port) {
      for (const ServiceRoute& route : service.routes) {
        visit(service, route);
      }
    }
  }
}

std::string join(const std::vector<std::string>& values) {
  std::string out;
  for (const auto& value : values) {
    out += concat(out.empty() ? "" : ", ", value);
  }
  return out;
}

bool origin_allowed(const control::RouteCors& cors, std::string_view origin) {
  return std::ranges::any_of(cors.allowed_origins, [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

}  // namespace

RouteMatch match_route(const control::SandboxServices& services, std::uint16_t port,
                       std::string_view path, std::string_view method) {
  bool any = false;
  bool by_path = false;
  each_route(services, port, [&](const Service&, const ServiceRoute& route) {
    any = true;
    by_path = by_path || route.path_prefix != "/" || route.rewrite_prefix.has_value();
  });
  if (!any) {
    return {};
  }
  std::string asked{path};
  if (by_path) {
    auto canonical = egress::canonical_path(path);
    if (!canonical) {
      return {.status = 400};
    }
    asked = *std::move(canonical);
  }
  RouteMatch match;
  std::size_t longest = 0;
  each_route(services, port, [&](const Service& service, const ServiceRoute& route) {
    const std::size_t size = without_slash(route.path_prefix).size();
    if (!is_below(asked, route.path_prefix) || (match.status != 404 && size < longest)) {
      return;
    }
    if (match.status == 404 || size > longest) {
      match = {.status = 405};
      longest = size;
    }
    if (match.status == 405 && allows(route, method)) {
      match = {.status = 200, .service = &service, .route = &route};
    } else if (match.status == 405) {
      match.allow += concat(match.allow.empty() ? "" : ", ", join(route.methods));
    }
  });
  return match;
}

RouteMatch match_request(const control::SandboxServices& services, std::uint16_t port,
                         std::string_view path, const http::Request& request) {
  if (is_preflight(request)) {
    auto match =
        match_route(services, port, path, request.headers.get("access-control-request-method"));
    if (match.route != nullptr && match.route->cors) {
      return match;
    }
  }
  return match_route(services, port, path, request.method);
}

std::string rewrite_path(const ServiceRoute& route, std::string_view path) {
  if (!route.rewrite_prefix) {
    return std::string{path};
  }
  // The prefix may have been matched in another spelling: then it is as many segments.
  const auto stem = without_slash(route.path_prefix);
  std::size_t end = 0;
  for (auto segments = std::ranges::count(stem, '/'); segments > 0; --segments) {
    end = std::min(path.find('/', end + 1), path.size());
  }
  const std::string rewritten =
      concat(without_slash(*route.rewrite_prefix), path.substr(stem.empty() ? 0 : end));
  return rewritten.empty() ? "/" : rewritten;
}

bool is_authorized(const RouteAuth& auth, const http::Headers& headers) {
  if (auth.mode == RouteAuth::Mode::kNone) {
    return true;
  }
  const bool bearer = auth.mode == RouteAuth::Mode::kBearer;
  const std::string_view name = bearer ? std::string_view{"authorization"} : auth.header_name;
  if (headers.count(name) != 1) {
    return false;
  }
  std::string_view value = headers.get(name);
  if (bearer) {
    constexpr std::string_view kScheme = "bearer ";
    if (!equals_ignore_case(value.substr(0, kScheme.size()), kScheme)) {
      return false;
    }
    value = trim(value.substr(kScheme.size()));
  }
  return equal_constant_time(sha256(value), auth.sha256);
}

bool is_preflight(const http::Request& request) {
  return request.method == "OPTIONS" && request.headers.has("origin") &&
         request.headers.has("access-control-request-method");
}

CorsAnswer judge_cors(const control::RouteCors& cors, const http::Request& request) {
  CorsAnswer answer;
  const auto origin = request.headers.get("origin");
  answer.preflight = is_preflight(request);
  answer.headers.add("vary", "origin");
  answer.allowed = !origin.empty() && origin_allowed(cors, origin);
  if (!answer.allowed) {
    return answer;
  }
  const bool any = std::ranges::find(cors.allowed_origins, "*") != cors.allowed_origins.end();
  // A star does not go with credentials: the origin itself does.
  answer.headers.add("access-control-allow-origin",
                     any && !cors.allow_credentials ? std::string_view{"*"} : origin);
  if (cors.allow_credentials) {
    answer.headers.add("access-control-allow-credentials", "true");
  }
  if (!answer.preflight) {
    if (!cors.expose_headers.empty()) {
      answer.headers.add("access-control-expose-headers", join(cors.expose_headers));
    }
    return answer;
  }
  answer.headers.add("access-control-allow-methods",
                     cors.allowed_methods.empty() ? "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
                                                  : join(cors.allowed_methods));
  const auto asked = request.headers.get("access-control-request-headers");
  const std::string headers =
      cors.allowed_headers.empty() ? std::string{asked} : join(cors.allowed_headers);
  if (!headers.empty()) {
    answer.headers.add("access-control-allow-headers", headers);
  }
  if (cors.max_age_seconds > 0) {
    answer.headers.add("access-control-max-age", std::to_string(cors.max_age_seconds));
  }
  return answer;
}

}  // namespace atl::ingress
