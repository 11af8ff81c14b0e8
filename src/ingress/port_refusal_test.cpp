#include "ingress/port_refusal.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace atl::ingress {
namespace {

http::Request request(http::Headers headers) {
  http::Request made;
  made.method = "GET";
  made.path = "/";
  made.headers = std::move(headers);
  return made;
}

TEST(PortRefusal, ProgramsGetJson) {
  const auto answer = refusal_response(
      request({{"accept", "*/*"}}),
      {.status = 502, .sandbox_id = "iabc", .port = 3000, .message = "nobody listens"});
  EXPECT_EQ(answer.status, 502);
  EXPECT_EQ(
      *Json::parse(answer.body),
      *Json::parse(R"({"sandboxId":"iabc","message":"nobody listens","code":502,"port":3000})"));
}

TEST(PortRefusal, PeopleGetAPage) {
  const auto answer =
      refusal_response(request({{"accept", "text/html"}, {"sec-fetch-mode", "navigate"}}),
                       {.status = 403, .sandbox_id = "<i>", .message = "no \"token\""});
  EXPECT_EQ(answer.headers.get("content-type"), "text/html; charset=utf-8");
  EXPECT_TRUE(answer.body.contains("&lt;i&gt;"));
  EXPECT_FALSE(answer.body.contains("<i>"));
}

TEST(PortRefusal, OnlyNavigationIsForPeople) {
  EXPECT_FALSE(is_navigation(request({{"accept", "text/html"}, {"user-agent", "curl/8"}})));
  EXPECT_TRUE(is_navigation(request({{"accept", "text/html"}, {"user-agent", "Mozilla/5.0"}})));
  EXPECT_FALSE(is_navigation(request(
      {{"accept", "text/html"}, {"user-agent", "Mozilla/5.0"}, {"sec-fetch-mode", "cors"}})));
}

}  // namespace
}  // namespace atl::ingress
