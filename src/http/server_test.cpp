// What a client sees of the server: framing, order, limits of the protocol. Real reactor, loopback.
#include "http/server.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/client.h"
#include "http/http1_vectors.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

std::size_t occurrences(std::string_view text, std::string_view piece) {
  std::size_t count = 0;
  for (auto at = text.find(piece); at != std::string_view::npos; at = text.find(piece, at + 1)) {
    ++count;
  }
  return count;
}

Task<> echo(Exchange& exchange) {
  CO_TRY(auto body, co_await read_all(exchange.body(), 1 << 20));
  co_return co_await exchange.respond(
      {200,
       {{"x-method", exchange.request().method}, {"x-target", exchange.request().target}},
       std::move(body)});
}

Task<> echo_streaming(Exchange& exchange) {
  CO_TRY_DO(co_await exchange.start(200, {}, exchange.body().length()));
  std::string buffer(std::size_t{64} * 1024, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer));
    if (got == 0) {
      co_return co_await exchange.finish();
    }
    CO_TRY_DO(co_await exchange.write({buffer.data(), got}));
  }
}

Task<> two_calls(Client& client) {
  for (int i = 0; i < 2; ++i) {
    CO_TRY(auto response, co_await client.send("POST", "/a?b=c", {{"x-a", "1"}}, "hello"));
    EXPECT_EQ(200, response->status());
    EXPECT_EQ("POST", response->headers().get("X-Method"));
    EXPECT_EQ("/a?b=c", response->headers().get("x-target"));
    EXPECT_EQ(5U, response->body().length());
    CO_TRY(const auto body, co_await read_all(response->body(), 100));
    EXPECT_EQ("hello", body);
  }
  co_return ok();
}

TEST(Server, KeepsTheConnection) {
  TestServer server{echo};
  Client client{server.reactor(), server.url()};
  EXPECT_TRUE(server.run(two_calls(client)));
  EXPECT_EQ(1U, server.connections_seen());
  EXPECT_EQ(0, server.connections_open());
  EXPECT_TRUE(contains(server.metrics().render(), "atoll_http_responses_total{class=\"2xx\"} 2"));
}

TEST(Server, ServesPipelinedRequestsInOrder) {
  TestServer server{echo};
  const auto answer = server.run(exchange_raw(
      server,
      "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none"
      "POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(3U, occurrences(*answer, "HTTP/1.1 200 OK\r\n"));
  EXPECT_LT(answer->find("x-target: /1"), answer->find("\r\n\r\none"));
  EXPECT_LT(answer->find("\r\n\r\none"), answer->find("x-target: /2"));
  EXPECT_LT(answer->find("\r\n\r\ntwo"), answer->find("x-target: /3"));
  EXPECT_TRUE(answer->ends_with("connection: close\r\n\r\n"));
}

struct Seen {
  std::vector<std::string> targets;
};

Task<> record(Exchange& exchange, Seen& seen) {
  seen.targets.push_back(exchange.request().target);
  co_return co_await echo(exchange);
}

Task<std::string> send_and_finish(TestServer& server, std::string bytes) {
  CO_TRY(auto stream, co_await connect_raw(server));
  CO_TRY_DO(co_await stream->write(bytes));
  CO_TRY_DO(stream->finish_writing());
  co_return co_await read_to_end(*stream);
}

TEST(Server, EveryHostileRequestMeetsItsFate) {
  Seen seen;
  for (const auto& vector : request_vectors()) {
    SCOPED_TRACE(vector.name);
    if (vector.bytes.starts_with("PRI * HTTP/2.0\r\n\r\nSM")) {
      continue;  // the server speaks HTTP/2 to that one
    }
    seen.targets.clear();
    TestServer server{[&seen](Exchange& exchange) { return record(exchange, seen); }};
    const auto answer = server.run(send_and_finish(server, concat(vector.bytes, kNextRequest)));
    ASSERT_TRUE(answer);
    const bool next_served = !seen.targets.empty() && seen.targets.back() == "/next";
    EXPECT_EQ(vector.status == 0 && !vector.closes, next_served);
    if (vector.status != 0) {
      EXPECT_TRUE(answer->starts_with(concat("HTTP/1.1 ", vector.status, " "))) << *answer;
      EXPECT_EQ(1U, occurrences(*answer, "HTTP/1.1 "));
      EXPECT_TRUE(contains(*answer, "connection: close\r\n"));
      EXPECT_EQ(vector.refused_in_body ? 1U : 0U, seen.targets.size());
    } else {
      EXPECT_EQ(vector.closes ? 1U : 2U, occurrences(*answer, "HTTP/1.1 200 OK\r\n")) << *answer;
    }
  }
}

Task<> head_then_get(Client& client) {
  CO_TRY(auto head, co_await client.send("HEAD", "/", {}));
  EXPECT_EQ(200, head->status());
  EXPECT_EQ("5", head->headers().get("content-length"));
  CO_TRY(const auto nothing, co_await read_all(head->body(), 10));
  EXPECT_EQ("", nothing);
  CO_TRY(auto get, co_await client.send("GET", "/", {}));
  CO_TRY(const auto body, co_await read_all(get->body(), 10));
  EXPECT_EQ("hello", body);
  co_return ok();
}

Task<> say_hello(Exchange& exchange) {
  return exchange.respond({200, {}, "hello"});
}

Task<> stream_hello(Exchange& exchange) {
  CO_TRY_DO(co_await exchange.start(200, {}, 5));
  CO_TRY_DO(co_await exchange.write("hel"));
  CO_TRY_DO(co_await exchange.write("lo"));
  co_return co_await exchange.finish();
}

TEST(Server, HeadHasTheLengthButNoBody) {
  for (const auto handler : {say_hello, stream_hello}) {
    TestServer server{handler};
    Client client{server.reactor(), server.url()};
    EXPECT_TRUE(server.run(head_then_get(client)));
    EXPECT_EQ(1U, server.connections_seen());
  }
}

Task<> no_content(Exchange& exchange) {
  return exchange.respond({204, {}, "dropped"});
}

TEST(Server, NoContentHasNoBodyAndNoLength) {
  TestServer server{no_content};
  const auto answer =
      server.run(exchange_raw(server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 204 No Content\r\n"));
  EXPECT_TRUE(answer->ends_with("\r\n\r\n"));
  EXPECT_FALSE(contains(*answer, "content-length"));
}

TEST(Server, Http10GetsNoChunksAndACloseInstead) {
  TestServer server{echo_streaming};
  const auto answer =
      server.run(exchange_raw(server, "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->ends_with("\r\n\r\nabc"));
  EXPECT_TRUE(contains(*answer, "connection: close\r\n"));
}

Task<> fail_not_found(Exchange&) {
  co_return fail(Code::kNotFound, "no \"such\" thing");
}
Task<> say_nothing(Exchange&) {
  co_return ok();
}

TEST(Server, AHandlerErrorBecomesItsStatus) {
  TestServer server{fail_not_found};
  const auto answer =
      server.run(exchange_raw(server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_TRUE(answer->ends_with(R"({"error":{"code":"not_found","message":"no \"such\" thing"}})"));
}

TEST(Server, NoAnswerBecomes500) {
  TestServer server{say_nothing};
  const auto answer =
      server.run(exchange_raw(server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 500 "));
}

Task<> split_response(Exchange& exchange) {
  return exchange.respond({200, {{"x-a", "b\r\nx-injected: c"}}, ""});
}

TEST(Server, AHeaderCannotSplitTheResponse) {
  TestServer server{split_response};
  const auto answer =
      server.run(exchange_raw(server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 500 "));
  EXPECT_FALSE(contains(*answer, "x-injected"));
}

Task<> write_too_much(Exchange& exchange) {
  CO_TRY_DO(co_await exchange.start(200, {}, 3));
  co_return co_await exchange.write("four");
}
Task<> write_too_little(Exchange& exchange) {
  CO_TRY_DO(co_await exchange.start(200, {}, 3));
  CO_TRY_DO(co_await exchange.write("tw"));
  co_return co_await exchange.finish();
}
Task<> fail_after_chunk(Exchange& exchange) {
  CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
  CO_TRY_DO(co_await exchange.write("half"));
  co_return fail(Code::kInternal, "broke");
}

Task<Code> read_whole_response(Client& client) {
  CO_TRY(auto response, co_await client.send("GET", "/", {}));
  EXPECT_EQ(200, response->status());
  auto body = co_await read_all(response->body(), 100);
  co_return body ? Code::kUnknown : body.error().code;
}

TEST(Server, AnAbortAfterStartIsNoticed) {
  for (const auto handler : {write_too_much, write_too_little, fail_after_chunk}) {
    TestServer server{handler};
    Client client{server.reactor(), server.url()};
    EXPECT_EQ(Code::kUnavailable, server.run(read_whole_response(client)));
  }
}

Task<Code> read_until_error(TestServer& server) {
  CO_TRY(auto stream, co_await connect_raw(server));
  CO_TRY_DO(co_await stream->write("GET / HTTP/1.0\r\n\r\n"));
  std::string buffer(4096, '\0');
  for (;;) {
    auto got = co_await stream->read(buffer);
    if (!got) {
      co_return got.error().code;
    }
    if (*got == 0) {
      co_return fail(Code::kUnknown, "looked like a whole answer");
    }
  }
}

TEST(Server, AnAbortOfAnAnswerWithoutLengthIsAReset) {
  TestServer server{fail_after_chunk};
  EXPECT_EQ(Code::kUnavailable, server.run(read_until_error(server)));
}

Task<> ignore_body(Exchange& exchange) {
  return exchange.respond({200, {}, "ignored"});
}

TEST(Server, AnUnreadSmallBodyIsSkipped) {
  TestServer server{ignore_body};
  const auto answer = server.run(exchange_raw(
      server,
      concat("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", std::string(1000, 'x'),
             "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")));
  ASSERT_TRUE(answer);
  EXPECT_EQ(2U, occurrences(*answer, "HTTP/1.1 200 OK\r\n"));
}

TEST(Server, AnUnreadLargeBodyEndsTheConnectionAfterTheAnswer) {
  TestServer server{ignore_body};
  const auto answer = server.run(
      exchange_raw(server, concat("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n",
                                  std::string(900000, 'x'), kNextRequest)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(1U, occurrences(*answer, "HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(answer->ends_with("ignored"));
}

Task<std::string> ask_before_sending(TestServer& server) {
  CO_TRY(auto stream, co_await connect_raw(server));
  CO_TRY_DO(
      co_await stream->write("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                             "Connection: close\r\nContent-Length: 3\r\n\r\n"));
  CO_TRY(auto invitation, co_await read_until(*stream, "\r\n\r\n"));
  if (invitation == "HTTP/1.1 100 Continue\r\n\r\n") {
    CO_TRY_DO(co_await stream->write("abc"));
  }
  CO_TRY(const auto rest, co_await read_to_end(*stream));
  co_return invitation + rest;
}

TEST(Server, InvitesABodyThatIsWanted) {
  TestServer server{echo};
  const auto answer = server.run(ask_before_sending(server));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(answer->ends_with("\r\n\r\nabc"));
}

TEST(Server, DoesNotInviteABodyThatIsNotWanted) {
  TestServer server{ignore_body};
  const auto answer = server.run(ask_before_sending(server));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(contains(*answer, "connection: close\r\n"));
}

}  // namespace
}  // namespace atl::http
