#include "ingress/forwarding.h"

#include <gtest/gtest.h>

#include "ingress/rate_limits.h"

namespace atl::ingress {
namespace {

http::Request request_with(http::Headers headers) {
  http::Request request{.method = "GET", .target = "/", .path = "/", .query = {}};
  request.headers = std::move(headers);
  return request;
}

TEST(RequestFields, LeaveOutWhatBelongsToTheConnectionOrToUs) {
  const auto request = request_with({{"Host", "a.test"},
                                     {"Connection", "keep-alive, X-Mine"},
                                     {"X-Mine", "1"},
                                     {"Transfer-Encoding", "chunked"},
                                     {"Content-Length", "5"},
                                     {"Expect", "100-continue"},
                                     {"X-Forwarded-For", "1.2.3.4"},
                                     {"X-Forwarded-Proto", "https"},
                                     {"Forwarded", "for=1.2.3.4"},
                                     {"X-Atoll-Route", "x"},
                                     {"X-Sandbox0-Preview", "pv.x"},
                                     {"Cookie", "a=1; __Host-sandbox0-preview=secret; b=2"},
                                     {"Accept", "*/*"}});
  const auto fields = request_fields(request, {.peer = "203.0.113.7:99", .scheme = "http"});
  EXPECT_EQ(fields.get("host"), "a.test");
  EXPECT_EQ(fields.get("x-forwarded-for"), "203.0.113.7");
  EXPECT_EQ(fields.get("x-forwarded-proto"), "http");
  EXPECT_EQ(fields.get("cookie"), "a=1; b=2");
  EXPECT_EQ(fields.get("accept"), "*/*");
  for (const auto* name : {"connection", "x-mine", "transfer-encoding", "content-length", "expect",
                           "forwarded", "x-atoll-route", "x-sandbox0-preview"}) {
    EXPECT_FALSE(fields.has(name)) << name;
  }
}

TEST(RequestFields, BelieveAProxyOnThisHostAboutItsClient) {
  const auto request = request_with(
      {{"Host", "a.test"}, {"X-Forwarded-For", "1.2.3.4"}, {"X-Forwarded-Proto", "https"}});
  const auto fields =
      request_fields(request, {.peer = "127.0.0.1:99", .scheme = "http", .prefix = "/s/x/80"});
  EXPECT_EQ(fields.get("x-forwarded-for"), "1.2.3.4, 127.0.0.1");
  EXPECT_EQ(fields.get("x-forwarded-proto"), "https");
  EXPECT_EQ(fields.get("x-forwarded-prefix"), "/s/x/80");
}

TEST(RequestFields, KeepTheSecretOfTheRoute) {
  const auto request = request_with({{"Host", "a"}, {"Authorization", "Bearer s"}, {"X-Key", "s"}});
  const control::RouteAuth bearer{.mode = control::RouteAuth::Mode::kBearer};
  const control::RouteAuth header{.mode = control::RouteAuth::Mode::kHeader,
                                  .header_name = "X-Key"};
  EXPECT_FALSE(request_fields(request, {.auth = &bearer}).has("authorization"));
  EXPECT_TRUE(request_fields(request, {.auth = &bearer}).has("x-key"));
  EXPECT_FALSE(request_fields(request, {.auth = &header}).has("x-key"));
  EXPECT_TRUE(request_fields(request, {}).has("authorization"));
}

TEST(ResponseFields, StayBelowThePrefix) {
  const http::Headers headers{{"Location", "/x"},
                              {"Set-Cookie", "a=b; Path=/app; Domain=example.com; Secure"},
                              {"Service-Worker-Allowed", "/"},
                              {"Clear-Site-Data", "\"*\""},
                              {"Strict-Transport-Security", "max-age=9"},
                              {"Keep-Alive", "1"},
                              {"Alt-Svc", "h3=\":443\""}};
  const auto fields = response_fields(headers, {.prefix = "/s/x/80"});
  EXPECT_EQ(fields.get("location"), "/s/x/80/x");
  EXPECT_EQ(fields.get("set-cookie"), "a=b; Secure; Path=/s/x/80/app");
  EXPECT_FALSE(fields.has("service-worker-allowed"));
  EXPECT_FALSE(fields.has("clear-site-data"));
  EXPECT_FALSE(fields.has("strict-transport-security"));
  EXPECT_FALSE(fields.has("keep-alive"));
  EXPECT_FALSE(fields.has("alt-svc"));
  const auto same = response_fields({{"Location", "/s/x/80/y"}}, {.prefix = "/s/x/80"});
  EXPECT_EQ(same.get("location"), "/s/x/80/y");
  const auto other = response_fields({{"Location", "//evil/y"}}, {.prefix = "/s/x/80"});
  EXPECT_EQ(other.get("location"), "//evil/y");
}

TEST(ResponseFields, KeepCookiesOnTheirOwnHost) {
  const auto fields = response_fields(
      {{"Set-Cookie", "a=b; Path=/app; Domain=apps.test; Secure"}, {"Clear-Site-Data", "*"}}, {});
  EXPECT_EQ(fields.get("set-cookie"), "a=b; Path=/app; Secure");
  EXPECT_TRUE(fields.has("clear-site-data"));
}

TEST(ResponseFields, OfPreviewsMayBeFramed) {
  const http::Headers headers{{"X-Frame-Options", "DENY"},
                              {"Content-Security-Policy", "frame-ancestors 'none'; a b;"},
                              {"Content-Security-Policy", "Frame-Ancestors x"}};
  const auto fields = response_fields(headers, {.framable = true});
  EXPECT_FALSE(fields.has("x-frame-options"));
  EXPECT_EQ(fields.count("content-security-policy"), 1U);
  EXPECT_EQ(fields.get("content-security-policy"), "a b");
}

TEST(RequestHead, RefusesWhatWouldBeTwoLines) {
  EXPECT_TRUE(request_head("GET", "/a?b", {{"a", "b"}}, ""));
  EXPECT_FALSE(request_head("GET", "/a b", {}, ""));
  EXPECT_FALSE(request_head("GET", "a", {}, ""));
  EXPECT_FALSE(request_head("GET", "/", {{"a", "b\r\nc: d"}}, ""));
  EXPECT_FALSE(request_head("G ET", "/", {}, ""));
}

TEST(RateLimits, FillUpAsTimePasses) {
  RateLimits limits;
  const control::RouteRate rate{.per_second = 2, .burst = 3};
  Instant now{};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(limits.take("r", rate, now).count(), 0);
  }
  EXPECT_EQ(limits.take("r", rate, now).count(), 500);
  EXPECT_EQ(limits.take("other", rate, now).count(), 0);
  now += std::chrono::milliseconds{500};
  EXPECT_EQ(limits.take("r", rate, now).count(), 0);
  EXPECT_GT(limits.take("r", rate, now).count(), 0);
}

}  // namespace
}  // namespace atl::ingress
