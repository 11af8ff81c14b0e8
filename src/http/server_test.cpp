// Server and client against each other over loopback, on the real reactor.
#include "http/server.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/client.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

Task<> echo(Exchange& exchange) {
  CO_TRY(auto body, co_await read_all(exchange.body(), 1 << 20));
  co_return co_await exchange.respond(
      {200,
       {{"x-method", exchange.request().method}, {"x-query", exchange.request().query}},
       std::move(body)});
}

Task<> two_calls(Client& client) {
  for (int i = 0; i < 2; ++i) {
    CO_TRY(auto response, co_await client.send("POST", "/a?b=c", {{"x-a", "1"}}, "hello"));
    EXPECT_EQ(200, response->status());
    EXPECT_EQ("POST", response->headers().get("X-Method"));
    EXPECT_EQ("b=c", response->headers().get("x-query"));
    CO_TRY(const auto body, co_await read_all(response->body(), 100));
    EXPECT_EQ("hello", body);
  }
  co_return ok();
}

TEST(Server, KeepsTheConnection) {
  TestServer server{echo};
  Client client{server.reactor(), server.url()};
  EXPECT_TRUE(server.run(two_calls(client)));
  EXPECT_EQ(1, server.connections_seen());
}

}  // namespace
}  // namespace atl::http
