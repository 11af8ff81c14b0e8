#include "ingress/route_match.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/strings.h"

namespace atl::ingress {
namespace {

using control::RouteAuth;
using control::RouteCors;
using control::SandboxServices;
using control::Service;
using control::ServiceRoute;

SandboxServices services_with(std::vector<ServiceRoute> routes, bool is_public = true) {
  SandboxServices services;
  services.services.push_back(
      {.id = "web", .port = 80, .is_public = is_public, .routes = std::move(routes)});
  return services;
}

TEST(RouteMatch, TakesTheLongestPrefixOnASegmentBoundary) {
  const auto services = services_with({{.id = "root", .path_prefix = "/"},
                                       {.id = "api", .path_prefix = "/api"},
                                       {.id = "deep", .path_prefix = "/api/v2/"}});
  const std::pair<const char*, const char*> cases[] = {
      {"/", "root"},       {"/apix", "root"},     {"/api", "api"},     {"/api/", "api"},
      {"/api/v2", "deep"}, {"/api/v2/x", "deep"}, {"/api/v20", "api"}, {"/%61pi/x", "api"},
  };
  for (const auto& [path, route] : cases) {
    const auto match = match_route(services, 80, path, "GET");
    ASSERT_EQ(match.status, 200) << path;
    EXPECT_EQ(match.route->id, route) << path;
  }
  EXPECT_EQ(match_route(services, 81, "/", "GET").status, 404);
  EXPECT_EQ(match_route(services_with({{.id = "r"}}, false), 80, "/", "GET").status, 404);
}

TEST(RouteMatch, RefusesPathsThatCouldBeAnotherRoutes) {
  const auto services = services_with(
      {{.id = "open", .path_prefix = "/open"}, {.id = "closed", .path_prefix = "/closed"}});
  for (const auto* path : {"/open/../closed", "/open/%2e%2e/closed", "/open/%2E./closed",
                           "//closed", "/open%2f..%2fclosed", "/open\\..\\closed"}) {
    EXPECT_EQ(match_route(services, 80, path, "GET").status, 400) << path;
  }
  // Where all paths have one rule there is nothing to get around.
  const auto one = services_with({{.id = "all"}});
  EXPECT_EQ(match_route(one, 80, "/a%2fb/../c", "GET").status, 200);
}

TEST(RouteMatch, NothingClimbsOutOfARewrittenPrefix) {
  const auto services =
      services_with({{.id = "all", .path_prefix = "/", .rewrite_prefix = "/pub"}});
  EXPECT_EQ(match_route(services, 80, "/a", "GET").status, 200);
  EXPECT_EQ(match_route(services, 80, "/../secret", "GET").status, 400);
  EXPECT_EQ(match_route(services, 80, "/%2e%2e/secret", "GET").status, 400);
}

TEST(RouteMatch, PreflightsAreWhatTheyAskAboutWhereThereAreRulesOnly) {
  auto services = services_with({{.id = "read", .path_prefix = "/", .methods = {"GET"}},
                                 {.id = "rest", .path_prefix = "/", .methods = {"OPTIONS"}}});
  http::Request request{.method = "OPTIONS"};
  request.headers = {{"origin", "https://a"}, {"access-control-request-method", "GET"}};
  EXPECT_EQ(match_request(services, 80, "/", request).route->id, "rest");
  services.services[0].routes[0].cors = RouteCors{.allowed_origins = {"*"}};
  EXPECT_EQ(match_request(services, 80, "/", request).route->id, "read");
}

TEST(RouteMatch, TellsWhichMethodsThereAre) {
  const auto services =
      services_with({{.id = "read", .path_prefix = "/a", .methods = {"GET", "HEAD"}},
                     {.id = "write", .path_prefix = "/a", .methods = {"PUT"}},
                     {.id = "all", .path_prefix = "/"}});
  EXPECT_EQ(match_route(services, 80, "/a", "PUT").route->id, "write");
  const auto refused = match_route(services, 80, "/a", "POST");
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.allow, "GET, HEAD, PUT");
}

TEST(RouteMatch, RewritesThePrefix) {
  const auto rewritten = [](std::string prefix, std::string by, std::string_view path) {
    return rewrite_path({.id = "r", .path_prefix = std::move(prefix), .rewrite_prefix = by}, path);
  };
  EXPECT_EQ(rewritten("/api", "/", "/api/x"), "/x");
  EXPECT_EQ(rewritten("/api", "/", "/api"), "/");
  EXPECT_EQ(rewritten("/api/", "/new", "/api/x/y"), "/new/x/y");
  EXPECT_EQ(rewritten("/", "/new", "/x"), "/new/x");
  EXPECT_EQ(rewritten("/api", "/new", "/%61pi/x"), "/new/x");
  EXPECT_EQ(rewrite_path({.id = "r", .path_prefix = "/api"}, "/api/x"), "/api/x");
}

TEST(RouteAuth, WantsExactlyTheRightSecret) {
  const RouteAuth bearer{.mode = RouteAuth::Mode::kBearer, .sha256 = sha256("secret")};
  EXPECT_TRUE(is_authorized(bearer, {{"Authorization", "bearer secret"}}));
  EXPECT_FALSE(is_authorized(bearer, {}));
  EXPECT_FALSE(is_authorized(bearer, {{"Authorization", "Bearer "}}));
  EXPECT_FALSE(is_authorized(bearer, {{"Authorization", "secret"}}));
  EXPECT_FALSE(is_authorized(bearer, {{"Authorization", "Bearer wrong"}}));
  EXPECT_FALSE(is_authorized(
      bearer, {{"Authorization", "Bearer secret"}, {"Authorization", "Bearer wrong"}}));
  const RouteAuth header{
      .mode = RouteAuth::Mode::kHeader, .header_name = "X-Key", .sha256 = sha256("secret")};
  EXPECT_TRUE(is_authorized(header, {{"x-key", "secret"}}));
  EXPECT_FALSE(is_authorized(header, {{"x-key", "Secret"}}));
  EXPECT_TRUE(is_authorized({}, {}));
}

TEST(RouteCors, AnswersPreflightsForOriginsThatMay) {
  const RouteCors cors{.allowed_origins = {"https://a"}, .allowed_methods = {"PUT"}};
  http::Request request{.method = "OPTIONS"};
  request.headers = {{"origin", "https://a"}, {"access-control-request-method", "PUT"}};
  auto answer = judge_cors(cors, request);
  EXPECT_TRUE(answer.preflight && answer.allowed);
  EXPECT_EQ(answer.headers.get("access-control-allow-origin"), "https://a");
  EXPECT_EQ(answer.headers.get("access-control-allow-methods"), "PUT");
  request.headers.set("origin", "https://b");
  answer = judge_cors(cors, request);
  EXPECT_FALSE(answer.allowed);
  EXPECT_FALSE(answer.headers.has("access-control-allow-origin"));
  const RouteCors any{.allowed_origins = {"*"}, .allow_credentials = true};
  EXPECT_EQ(judge_cors(any, request).headers.get("access-control-allow-origin"), "https://b");
}

}  // namespace
}  // namespace atl::ingress
