// HTTP/1 through the proxy: what passes, what is refused, and that neither direction can be
// smuggled through.
#include <gtest/gtest.h>

#include "proxy/http/test_boundary.h"

namespace atl::proxy::http {
namespace {

TEST(Http1Relay, ARequestIsWrittenAnewAndItsAnswerComesBack) {
  TestBoundary boundary;
  Script script;
  const auto got = talk(boundary, script,
                        "GET /a?secret=1 HTTP/1.1\r\nHost: API.test\r\nConnection: close, X-Hop\r\n"
                        "X-Hop: 1\r\nKeep-Alive: 3\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
                        "Proxy-Authorization: Basic eA==\r\nAccept: */*\r\n\r\n");
  EXPECT_EQ(200, status_of(got)) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\nok")) << got;
  EXPECT_EQ("GET /a?secret=1 HTTP/1.1\r\nhost: api.test\r\nAccept: */*\r\n\r\n", script.received);
  ASSERT_EQ(1U, boundary.account->record.operations.size());
  EXPECT_EQ("GET /a 200", boundary.account->record.operations[0]);
  EXPECT_TRUE(boundary.account->record.intercepted);
}

TEST(Http1Relay, ConnectionsAreKeptOnBothSides) {
  TestBoundary boundary;
  Script script;
  const auto got = talk(boundary, script,
                        "GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\n"
                        "GET /2 HTTP/1.1\r\nHost: api.test:80\r\n\r\n"
                        "HEAD /3 HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(1, boundary.dials);
  EXPECT_TRUE(has(script.received, "GET /1 ") && has(script.received, "GET /2 ") &&
              has(script.received, "HEAD /3 "))
      << script.received;
  EXPECT_TRUE(got.ends_with("connection: close\r\n\r\n")) << got;
}

struct Vector {
  const char* name;
  std::string request;
  int status;
};

std::vector<Vector> hostile_requests() {
  const std::string host = "Host: api.test\r\n";
  return {
      {"CL.TE",
       "POST / HTTP/1.1\r\n" + host +
           "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"two lengths",
       "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"list of lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 1, 1\r\n\r\na", 400},
      {"signed length", "POST / HTTP/1.1\r\n" + host + "Content-Length: +1\r\n\r\na", 400},
      {"TE.TE",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
       400},
      {"unknown coding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"coding in 1.0",
       "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"folded line", "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", 400},
      {"bare line feed", "GET / HTTP/1.1\n" + host + "\r\n", 400},
      {"bare carriage return", "GET / HTTP/1.1\r\n" + host + "X: a\rb\r\n\r\n", 400},
      {"NUL", "GET / HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10), 400},
      {"blank before colon", "GET / HTTP/1.1\r\n" + host + "Content-Length : 1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\n" + host + "Host: evil.test\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"another host", "GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", 421},
      {"another port", "GET / HTTP/1.1\r\nHost: api.test:8080\r\nConnection: close\r\n\r\n", 421},
      {"suffix", "GET / HTTP/1.1\r\nHost: api.test.evil.test\r\nConnection: close\r\n\r\n", 421},
      {"address as host", "GET / HTTP/1.1\r\nHost: 203.0.113.7\r\nConnection: close\r\n\r\n", 421},
      {"user info", "GET / HTTP/1.1\r\nHost: api.test@evil.test\r\n\r\n", 400},
      {"absolute form", "GET http://evil.test/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"connect", "CONNECT api.test:443 HTTP/1.1\r\n" + host + "\r\n", 405},
      {"trace", "TRACE / HTTP/1.1\r\n" + host + "\r\n", 405},
      {"bad chunk", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"framing in a trailer",
       "POST / HTTP/1.1\r\n" + host +
           "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\n\r\n",
       400},
      {"too many fields",
       "GET / HTTP/1.1\r\n" + host +
           [] {
             std::string many;
             for (int i = 0; i < 200; ++i) {
               many += "a: b\r\n";
             }
             return many;
           }() +
           "\r\n",
       431},
  };
}

TEST(Http1Relay, WhatCouldBeReadInTwoWaysIsRefused) {
  for (const auto& vector : hostile_requests()) {
    TestBoundary boundary;
    Script script;
    const auto got = talk(boundary, script, vector.request);
    EXPECT_EQ(vector.status, status_of(got)) << vector.name << ": " << got;
    EXPECT_FALSE(has(script.received, "evil")) << vector.name << ": " << script.received;
    EXPECT_FALSE(script.received.ends_with("0\r\n\r\n")) << vector.name << script.received;
  }
}

TEST(Http1Relay, APipelinedRequestForAnotherHostIsRefused) {
  TestBoundary boundary;
  Script script;
  const auto got = talk(boundary, script,
                        "GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\n"
                        "GET /2 HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(has(got, "HTTP/1.1 421 ")) << got;
  EXPECT_FALSE(has(script.received, "/2")) << script.received;
}

TEST(Http1Relay, AnswersThatCouldBeReadInTwoWaysAreRefused) {
  const std::vector<std::string> replies{
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
      "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 700 No\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
      "nonsense\r\n\r\n",
  };
  for (const auto& reply : replies) {
    TestBoundary boundary;
    Script script{.replies = {reply}, .closes = true};
    const auto got =
        talk(boundary, script, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(502, status_of(got)) << reply << " -> " << got;
    EXPECT_FALSE(has(got, "Cookie")) << got;
  }
}

TEST(Http1Relay, BytesAfterAnAnswerNeverBecomeTheNextAnswer) {
  TestBoundary boundary;
  Script script{.replies = {"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
                            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
                            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood"}};
  const auto got = talk(boundary, script,
                        "GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\n"
                        "GET /2 HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
  EXPECT_FALSE(has(got, "evil")) << got;
  EXPECT_TRUE(got.ends_with("good")) << got;
  EXPECT_EQ(2, boundary.dials);
}

TEST(Http1Relay, ChunkedBodiesAndTrailersPassBothWays) {
  TestBoundary boundary;
  Script script{.replies = {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                            "3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n"},
                .until = "x-end: 1\r\n\r\n"};
  const auto got =
      talk(boundary, script,
           "POST /up HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n"
           "Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\nx-end: 1\r\n\r\n");
  EXPECT_TRUE(has(script.received, "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"))
      << script.received;
  EXPECT_TRUE(got.ends_with("3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n")) << got;
}

TEST(Http1Relay, AnExpectationIsMetAndBodilessAnswersStaySo) {
  TestBoundary boundary;
  Script script{.replies = {"HTTP/1.1 204 No Content\r\n\r\n",
                            "HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\netag: x\r\n\r\n"}};
  const auto got = talk(boundary, script,
                        "PUT /u HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue\r\n"
                        "Content-Length: 3\r\n\r\nabc"
                        "GET /n HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(got.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 ")) << got;
  EXPECT_TRUE(has(got, "HTTP/1.1 304 ") && has(got, "content-length: 77")) << got;
  EXPECT_FALSE(has(script.received, "xpect")) << script.received;
  EXPECT_TRUE(has(script.received, "abc")) << script.received;
}

TEST(Http1Relay, PathRulesSeeOneReadingOfAPath) {
  TestBoundary boundary;
  egress::ProtocolRule rule;
  rule.name = "only-allowed";
  rule.path_prefixes.allowed = {"/allowed"};
  boundary.policy().protocol_rules.push_back(rule);
  const std::vector<std::pair<std::string, int>> paths{
      {"/allowed/x", 200},         {"/%61llowed/x", 200},      {"/secret", 403},
      {"/allowed/../secret", 400}, {"/allowed/%2e%2e/s", 400}, {"/allowed%2f..%2fs", 400},
      {"/allowed\\..\\s", 400},    {"//allowed/x", 400},       {"/allowedness", 403},
  };
  for (const auto& [path, status] : paths) {
    Script script;
    const auto got =
        talk(boundary, script,
             concat("GET ", path, " HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"));
    EXPECT_EQ(status, status_of(got)) << path << got;
    EXPECT_EQ(status == 200, !script.received.empty()) << path;
    if (status == 403) {
      EXPECT_TRUE(has(got, "\"rule\":\"only-allowed\"") && has(got, "\"origin\":\"sandbox\"") &&
                  has(got, "atoll why flow-1"))
          << got;
    }
  }
}

TEST(Http1Relay, RulesOfThisMomentCount) {
  TestBoundary boundary;
  boundary.policy().mode = egress::Mode::kBlockAll;
  Script script;
  const auto got =
      talk(boundary, script, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(403, status_of(got)) << got;
  EXPECT_EQ(0, boundary.dials);
}

TEST(Http1Relay, AHeldRequestGoesOnOnlyWhenSomebodyAllowsIt) {
  for (const bool approves : {true, false}) {
    TestBoundary boundary;
    boundary.approves = approves;
    boundary.policy().traffic_rules.push_back(
        {.name = "ask", .action = egress::Action::kAsk, .ports = {{80, 80}}});
    Script script;
    const auto got = talk(boundary, script,
                          "POST /pay?a=b HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(approves ? 200 : 403, status_of(got)) << got;
    ASSERT_EQ(1U, boundary.questions.size());
    EXPECT_EQ("POST http://api.test/pay", boundary.questions[0]);
    EXPECT_EQ(approves ? 1 : 0, boundary.dials);
  }
}

TEST(Http1Relay, ARuleOfTheSameNameInAnotherLayerIsAskedAgain) {
  for (const std::string origin : {"sandbox", "operator"}) {
    TestBoundary boundary;
    boundary.approves = true;
    boundary.policy().traffic_rules.push_back(
        {.name = "ask", .action = egress::Action::kAsk, .ports = {{80, 80}}});
    boundary.account->record.rule = "ask";
    boundary.account->record.origin = origin;
    Script script;
    const auto got =
        talk(boundary, script, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(200, status_of(got)) << got;
    EXPECT_EQ(origin == "sandbox" ? 0U : 1U, boundary.questions.size()) << origin;
  }
}

Task<std::string> stream_events(StreamPtr stream, std::string request) {
  CO_TRY_DO(co_await stream->write(request));
  co_return co_await read_marks(*stream, "data: ", 2);
}

// A server that says a piece, and the next one only when it is told that the first has arrived.
TEST(Http1Relay, EventsAreNotHeldBack) {
  TestBoundary boundary;
  Script script{.replies = {"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
                            "data: 1\n\ndata: 2\n\n"}};
  boundary.server = [&script](TestBoundary&, StreamPtr s) {
    return play_plain(std::move(s), script);
  };
  auto got = boundary.reactor.run_until_complete(
      with_service<std::string>(boundary, [](TestBoundary&, StreamPtr stream) {
        return stream_events(std::move(stream), "GET /e HTTP/1.1\r\nHost: api.test\r\n\r\n");
      }));
  ASSERT_TRUE(got) << got.error().message;  // the connection to the server is still open
  EXPECT_TRUE(has(*got, "data: 1\n\ndata: 2\n\n")) << *got;
}

TEST(Http1Relay, LargeBodiesStreamBothWays) {
  TestBoundary boundary;
  const std::string body(5 << 20, 'q');
  Script script{
      .replies = {concat("HTTP/1.1 200 OK\r\ncontent-length: ", body.size(), "\r\n\r\n", body)},
      .until = "END"};
  const auto got = talk(boundary, script,
                        concat("POST / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n"
                               "Content-Length: ",
                               body.size() + 3, "\r\n\r\n", body, "END"));
  EXPECT_TRUE(script.received.ends_with("\r\n\r\n" + body + "END"));
  EXPECT_TRUE(got.ends_with("\r\n\r\n" + body));
}

TEST(Http1Relay, AnAnswerThatIsCutShortIsNotCompleted) {
  TestBoundary boundary;
  Script script{.replies = {"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"}, .closes = true};
  const auto got = talk(boundary, script, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n");
  EXPECT_TRUE(got.ends_with("half")) << got;
}

}  // namespace
}  // namespace atl::proxy::http
