// The header that tells where the time of a request went, and the histograms of it.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "base/trace.h"
#include "http/server_core.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

// As a service does it: steps are marked always, told only when that is allowed.
Task<> answer(Exchange& exchange) {
  TaskContext& here = co_await current_context();
  if (here.trace == nullptr) {
    co_return fail(Code::kInternal, "no trace");
  }
  const std::string& path = exchange.request().path;
  if (path != "/other") {
    co_await trace_as(Operation::kExec);
  }
  co_await mark(Step::kSpawn);
  if (path == "/told" || path == "/streamed") {
    here.trace->report();
  }
  if (path == "/streamed") {
    CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
    CO_TRY_DO(co_await exchange.write("x"));
    co_return co_await exchange.finish();
  }
  co_return co_await exchange.respond({200, {}, "x"});
}

std::string request(std::string_view path) {
  return concat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

TEST(ServerTiming, IsToldWhenItIsAllowed) {
  for (const auto* path : {"/told", "/streamed"}) {
    TestServer server{answer};
    const auto got = server.run(exchange_raw(server, request(path)));
    ASSERT_TRUE(got);
    const auto begin = got->find("\r\nx-atoll-timing: read;us=");
    ASSERT_NE(std::string::npos, begin) << *got;
    const auto line = got->substr(begin + 2, got->find("\r\n", begin + 2) - begin - 2);
    EXPECT_TRUE(contains(line, ", spawn;us=")) << line;
    EXPECT_TRUE(contains(line, ", encode;us=")) << line;
    EXPECT_TRUE(contains(line, ", total;us=")) << line;
    EXPECT_FALSE(contains(line, "store;")) << line;
  }
}

TEST(ServerTiming, IsNotToldOtherwise) {
  TestServer server{answer};
  const auto got = server.run(exchange_raw(server, request("/quiet")));
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->starts_with("HTTP/1.1 200"));
  EXPECT_FALSE(contains(*got, "x-atoll-timing"));
}

TEST(ServerTiming, EveryRequestOfAConnectionHasItsOwn) {
  TestServer server{answer};
  const auto got = server.run(
      exchange_raw(server, concat("GET /told HTTP/1.1\r\nHost: x\r\n\r\n", request("/quiet"))));
  ASSERT_TRUE(got);
  EXPECT_TRUE(contains(*got, "x-atoll-timing"));
  EXPECT_EQ(got->find("x-atoll-timing"), got->rfind("x-atoll-timing"));
}

TEST(ServerTiming, StepsOfKnownOperationsAreCounted) {
  TestServer server{answer};
  ASSERT_TRUE(server.run(exchange_raw(server, request("/quiet"))));
  const auto text = server.metrics().render();
  EXPECT_TRUE(
      contains(text, "atoll_http_step_seconds_count{operation=\"exec\",step=\"spawn\"} 1\n"))
      << text;
  EXPECT_FALSE(contains(text, "step=\"store\""));
}

TEST(ServerTiming, OtherRequestsLeaveNoSeries) {
  TestServer server{answer};
  ASSERT_TRUE(server.run(exchange_raw(server, request("/other"))));
  EXPECT_FALSE(contains(server.metrics().render(), "atoll_http_step_seconds"));
}

}  // namespace
}  // namespace atl::http
