// What browsers need: cross-origin answers and event streams.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/cors.h"
#include "http/event_writer.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

Task<> say_hello(Exchange& exchange) {
  return exchange.respond({200, {}, exchange.request().method});
}

std::string ask(const CorsPolicy& policy, std::string_view method, std::string_view fields) {
  TestServer server{with_cors(policy, say_hello)};
  auto answer = server.run(exchange_raw(
      server, concat(method, " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", fields, "\r\n")));
  return answer ? *std::move(answer) : answer.error().message;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Cors, AnyOriginIsLetInWithoutCredentials) {
  const auto answer = ask({}, "GET", "Origin: https://a.example\r\n");
  EXPECT_TRUE(has(answer, "access-control-allow-origin: *\r\n")) << answer;
  EXPECT_FALSE(has(answer, "allow-credentials"));
  EXPECT_TRUE(answer.ends_with("GET"));
  EXPECT_FALSE(has(ask({}, "GET", ""), "access-control"));
}

TEST(Cors, OnlyNamedOriginsAreLetIn) {
  const CorsPolicy policy{.origins = {"https://a.example"}};
  const auto known = ask(policy, "GET", "Origin: https://a.example\r\n");
  EXPECT_TRUE(has(known, "access-control-allow-origin: https://a.example\r\n")) << known;
  EXPECT_TRUE(has(known, "vary: origin\r\n"));
  for (const auto* origin :
       {"https://b.example", "https://a.example.evil", "null", "http://a.example"}) {
    EXPECT_FALSE(has(ask(policy, "GET", concat("Origin: ", origin, "\r\n")), "access-control"));
  }
}

TEST(Cors, APreflightNeverReachesTheHandler) {
  const auto answer = ask({}, "OPTIONS",
                          "Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n"
                          "Access-Control-Request-Headers: authorization\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 204 ")) << answer;
  EXPECT_TRUE(has(answer, "access-control-allow-methods: GET, HEAD, POST, PUT"));
  EXPECT_TRUE(has(answer, "access-control-allow-headers: authorization"));
  // A plain OPTIONS is the handler's.
  EXPECT_TRUE(ask({}, "OPTIONS", "Origin: https://a.example\r\n").ends_with("OPTIONS"));
}

TEST(Cors, PoliciesAreParsed) {
  EXPECT_FALSE(*parse_cors_policy("none"));
  EXPECT_TRUE((*parse_cors_policy("*"))->origins.empty());
  const auto two = parse_cors_policy("https://a.example, http://localhost:3000");
  ASSERT_TRUE(two);
  EXPECT_EQ((std::vector<std::string>{"https://a.example", "http://localhost:3000"}),
            (*two)->origins);
  for (const auto* bad : {"", "a.example", "https://", "https://a/b", "ftp://a", "https://a,"}) {
    EXPECT_FALSE(parse_cors_policy(bad)) << bad;
  }
}

TEST(EventWriter, FramesEvents) {
  EXPECT_EQ("data: x\n\n", encode_event({.data = "x"}));
  EXPECT_EQ("event: e\nid: 7\ndata: a\ndata: b\ndata: c\ndata: \n\n",
            encode_event({.name = "e", .data = "a\nb\r\nc\r", .id = "7"}));
  EXPECT_EQ("data: \n\n", encode_event({}));
  EXPECT_FALSE(encode_event({.name = "a\nb", .data = "x"}));
  EXPECT_FALSE(encode_event({.data = "x", .id = "1\r2"}));
}

Task<> stream_events(Exchange& exchange) {
  EventWriter events{exchange};
  CO_TRY_DO(co_await events.start());
  Scope beating{co_await current_context()};
  beating.spawn("heartbeat", events.beat(20ms));
  auto sent = co_await events.send({.name = "first", .data = "1"});
  if (sent) {
    sent = co_await sleep_for(110ms);
  }
  if (sent) {
    sent = co_await events.send({.name = "last", .data = "2"});
  }
  (void)co_await beating.cancel_and_join();
  CO_TRY_DO(std::move(sent));
  co_return co_await events.finish();
}

TEST(EventWriter, BeatsWhileNothingHappens) {
  TestServer server{stream_events};
  struct Steps {
    static Task<std::string> run(TestServer& server) {
      Client client{server.reactor(), server.url()};
      CO_TRY(auto response, co_await client.send("GET", "/", {}));
      EXPECT_EQ("text/event-stream", response->headers().get("content-type"));
      co_return co_await read_all(response->body(), 10000);
    }
  };
  const auto text = server.run(Steps::run(server));
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->starts_with("event: first\ndata: 1\n\n:\n\n")) << *text;
  EXPECT_TRUE(text->ends_with("event: last\ndata: 2\n\n")) << *text;
}

}  // namespace
}  // namespace atl::http
