// The server as curl sees it: a second opinion on the wire format.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/strings.h"
#include "http/test_server.h"
#include "io/offload.h"

namespace atl::http {
namespace {

Task<> describe(Exchange& exchange) {
  std::uint64_t total = 0;
  std::string buffer(std::size_t{64} * 1024, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer));
    if (got == 0) {
      break;
    }
    total += got;
  }
  const auto line =
      concat(exchange.request().method, " ", exchange.request().target, " ", total, "\n");
  if (exchange.request().path == "/stream") {
    CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
    for (const char& c : line) {
      CO_TRY_DO(co_await exchange.write({&c, 1}));
    }
    co_return co_await exchange.finish();
  }
  co_return co_await exchange.respond({200, {{"x-test", "yes"}}, line});
}

class Curl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/curl", X_OK) != 0) {
      GTEST_SKIP() << "curl is not installed";
    }
  }

  // `{}` in the arguments becomes the server's URL.
  Result<std::string> curl(std::string arguments, std::string before = "") {
    const auto url = concat("http://127.0.0.1:", server_.server().port());
    for (auto at = arguments.find("{}"); at != std::string::npos; at = arguments.find("{}")) {
      arguments.replace(at, 2, url);
    }
    return server_.run(run_shell(
        pool_, concat(before, "curl -q -sS --noproxy '*' --max-time 60 ", arguments, " 2>&1")));
  }

  TestServer server_{describe};
  io::OffloadPool pool_{"curl", 1, 4};
};

TEST_F(Curl, Get) {
  EXPECT_EQ("GET /a?b=c 0\n", curl("'{}/a?b=c'"));
}

TEST_F(Curl, Head) {
  const auto answer = curl("-I {}/a");
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(std::string::npos, answer->find("x-test: yes\r\n"));
  EXPECT_NE(std::string::npos, answer->find("content-length: 10\r\n"));
}

TEST_F(Curl, PostWithExpectContinue) {
  const auto answer = curl(
      "-v -H 'Expect: 100-continue' --expect100-timeout 30 "
      "--data-binary @- {}/p",
      "head -c 3000000 /dev/zero | ");
  ASSERT_TRUE(answer);
  EXPECT_NE(std::string::npos, answer->find("< HTTP/1.1 100 Continue"));
  EXPECT_NE(std::string::npos, answer->find("POST /p 3000000\n"));  // amid what -v says
}

TEST_F(Curl, ChunkedUploadAndDownload) {
  EXPECT_EQ("PUT /stream 3000000\n", curl("-T - {}/stream", "head -c 3000000 /dev/zero | "));
}

TEST_F(Curl, KeepsTheConnectionForTwoUrls) {
  const auto answer = curl("-v {}/1 {}/2 {}/stream");
  ASSERT_TRUE(answer);
  EXPECT_NE(std::string::npos, answer->find("GET /1 0\n"));
  EXPECT_NE(std::string::npos, answer->find("GET /2 0\n"));
  EXPECT_NE(std::string::npos, answer->find("GET /stream 0\n"));
  EXPECT_EQ(1U, server_.connections_seen());
}

TEST_F(Curl, Http10) {
  EXPECT_EQ("GET /1 0\n", curl("--http1.0 {}/1"));
}

TEST_F(Curl, Http10Stream) {
  EXPECT_EQ("GET /stream 0\n", curl("--http1.0 {}/stream"));
}

TEST_F(Curl, UpgradeToHttp2IsIgnored) {
  EXPECT_EQ("GET /1 0\n", curl("--http2 {}/1"));
}

}  // namespace
}  // namespace atl::http
