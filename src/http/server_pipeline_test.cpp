// Requests that are sent before the answers to those before them: served one after another, in
// order, and no faster than the client reads.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

struct Log {
  std::size_t begun = 0;
  std::size_t under_way = 0;
  std::size_t most = 0;
};

constexpr std::size_t kAnswerBytes = std::size_t{64} * 1024;

Task<> answer_later(Exchange& exchange, Log& log) {
  ++log.begun;
  log.most = std::max(log.most, ++log.under_way);
  // Later requests would overtake if they were served at once.
  CO_TRY_DO(co_await sleep_for(exchange.request().path == "/0" ? Duration{5ms} : Duration{}));
  auto sent = co_await exchange.respond({200, {{"x-path", exchange.request().path}}, "."});
  --log.under_way;
  co_return std::move(sent);
}

TEST(ServerPipeline, ManyAreAnsweredInOrder) {
  constexpr std::size_t kRequests = 1000;
  Log log;
  TestServer server{[&log](Exchange& exchange) { return answer_later(exchange, log); }};
  std::string requests;
  for (std::size_t i = 0; i < kRequests; ++i) {
    requests += concat("GET /", i, " HTTP/1.1\r\nHost: x\r\n",
                       i + 1 == kRequests ? "Connection: close\r\n\r\n" : "\r\n");
  }
  const auto got = server.run(exchange_raw(server, requests));
  ASSERT_TRUE(got);
  std::size_t at = 0;
  for (std::size_t i = 0; i < kRequests; ++i) {
    at = got->find(concat("x-path: /", i, "\r\n"), at);
    ASSERT_NE(std::string::npos, at) << i;
  }
  EXPECT_EQ(kRequests, log.begun);
  EXPECT_EQ(1U, log.most);
  EXPECT_EQ(1U, server.connections_seen());
}

Task<> answer_much(Exchange& exchange, Log& log) {
  ++log.begun;
  co_return co_await exchange.respond({200, {}, std::string(kAnswerBytes, 'x')});
}

constexpr std::size_t kUnread = 2000;

// Sends everything before it reads anything.
Task<std::size_t> send_without_reading(TestServer& server, const Log& log, std::size_t& before) {
  CO_TRY(auto stream, co_await connect_raw(server));
  std::string requests;
  for (std::size_t i = 0; i < kUnread; ++i) {
    requests += concat("GET / HTTP/1.1\r\nHost: x\r\n",
                       i + 1 == kUnread ? "Connection: close\r\n\r\n" : "\r\n");
  }
  CO_TRY_DO(co_await stream->write(requests));
  // It goes on until the kernel takes no more: then its number stands still.
  do {
    before = log.begun;
    CO_TRY_DO(co_await sleep_for(20ms));
  } while (log.begun != before || before == 0);
  CO_TRY(const auto all, co_await read_to_end(*stream));
  co_return all.size();
}

TEST(ServerPipeline, AClientThatDoesNotReadIsNotServedAhead) {
  Log log;
  TestServer server{[&log](Exchange& exchange) { return answer_much(exchange, log); }};
  std::size_t before = 0;
  const auto bytes = server.run(send_without_reading(server, log, before));
  ASSERT_TRUE(bytes);
  EXPECT_LT(before, kUnread / 2);  // what fits into the sockets, and one
  EXPECT_EQ(kUnread, log.begun);
  EXPECT_GT(*bytes, kUnread * kAnswerBytes);
}

// Bytes of a body never become a request.
TEST(ServerPipeline, AnUnreadBodyIsSkippedBeforeTheNext) {
  Log log;
  TestServer server{[&log](Exchange& exchange) { return answer_later(exchange, log); }};
  const std::string inner = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
  const auto got = server.run(exchange_raw(
      server, concat("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: ", inner.size(), "\r\n\r\n",
                     inner, "GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")));
  ASSERT_TRUE(got);
  EXPECT_EQ(std::string::npos, got->find("smuggled"));
  EXPECT_LT(got->find("x-path: /1"), got->find("x-path: /2"));
  EXPECT_EQ(2U, log.begun);
}

}  // namespace
}  // namespace atl::http
