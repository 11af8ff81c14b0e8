// HTTP/2 as other implementations speak it: curl, h2load, and a client of libnghttp2's frames.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/fd.h"
#include "base/strings.h"
#include "http/test_server.h"
#include "tls/mint.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLarge = 20'000'000;

Task<> describe(Exchange& exchange) {
  const Request& request = exchange.request();
  if (request.path == "/large") {
    const std::string piece(100'000, 'x');
    CO_TRY_DO(co_await exchange.start(200, {{"X-Upper", "yes"}, {"Connection", "close"}}, kLarge));
    for (std::size_t sent = 0; sent < kLarge; sent += piece.size()) {
      CO_TRY_DO(co_await exchange.write(piece));
    }
    co_return co_await exchange.finish();
  }
  if (request.path == "/refuse") {  // without reading the body
    co_return co_await exchange.respond({403, {}, "no"});
  }
  if (request.path == "/broken") {
    CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
    CO_TRY_DO(co_await exchange.write("half"));
    co_return fail(Code::kInternal, "oops");
  }
  std::uint64_t total = 0;
  std::string buffer(std::size_t{64} * 1024, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer));
    if (got == 0) {
      break;
    }
    total += got;
  }
  const auto line = concat(request.method, " ", request.target, " ", total, "\n");
  if (request.path == "/stream") {
    CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
    for (const char& c : line) {
      CO_TRY_DO(co_await exchange.write({&c, 1}));
    }
    co_return co_await exchange.finish();
  }
  co_return co_await exchange.respond(
      {200, {{"x-host", request.headers.get("host").data()}}, line});
}

class Http2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/curl", X_OK) != 0) {
      GTEST_SKIP() << "curl is not installed";
    }
  }
  // `{}` in the command becomes the server's URL.
  std::string shell(std::string command) {
    const auto url = concat("http://127.0.0.1:", server_.server().port());
    for (auto at = command.find("{}"); at != std::string::npos; at = command.find("{}")) {
      command.replace(at, 2, url);
    }
    auto said = server_.run(run_shell(pool_, concat("{ ", command, "; } 2>&1")));
    return said ? *std::move(said) : std::move(said).error().message;
  }
  std::uint64_t connections() {
    return server_.metrics().counter("atoll_http2_connections_total", "").value();
  }
  std::uint64_t requests() {
    return server_.metrics().counter("atoll_http2_streams_total", "").value();
  }

  static constexpr std::string_view kCurl =
      "curl -q -sS --noproxy '*' --max-time 60 --http2-prior-knowledge ";
  TestServer server_{describe};
  io::OffloadPool pool_{"curl", 1, 4};
};

TEST_F(Http2, Get) {
  EXPECT_EQ("GET /a?b=c 0\n2 200",
            shell(concat(kCurl, "-w '%{http_version} %{http_code}' '{}/a?b=c'")));
  EXPECT_EQ(1U, connections());
}

TEST_F(Http2, HeadAndHeaders) {
  const auto answer = shell(concat(kCurl, "-I {}/a"));
  EXPECT_TRUE(answer.starts_with("HTTP/2 200 ")) << answer;
  EXPECT_NE(std::string::npos, answer.find("content-length: 10\r\n"));
  EXPECT_NE(std::string::npos, answer.find("x-host: 127.0.0.1"));
  EXPECT_NE(std::string::npos, answer.find("date: "));
}

TEST_F(Http2, UploadsBeyondTheWindow) {
  EXPECT_EQ("POST /p 20000000\n",
            shell(concat("head -c 20000000 /dev/zero | ", kCurl, "--data-binary @- {}/p")));
}

TEST_F(Http2, StreamedUpload) {
  EXPECT_EQ("PUT /stream 3000000\n",
            shell(concat("head -c 3000000 /dev/zero | ", kCurl, "-T - {}/stream")));
}

TEST_F(Http2, Download) {
  EXPECT_EQ("20000000\n", shell(concat(kCurl, "{}/large | wc -c")));
}

TEST_F(Http2, AnAnswerBeforeTheBodyIsReadArrives) {
  EXPECT_EQ("no 403", shell(concat("head -c 20000000 /dev/zero | ", kCurl,
                                   "-w ' %{http_code}' --data-binary @- {}/refuse")));
}

TEST_F(Http2, HalfAnAnswerIsAnError) {
  EXPECT_EQ("status 92",
            shell(concat(kCurl, "-o /dev/null {}/broken 2>/dev/null || printf 'status %s' $?")));
}

TEST_F(Http2, ParallelRequestsShareAConnection) {
  if (::access("/usr/bin/h2load", X_OK) != 0) {
    GTEST_SKIP() << "h2load is not installed";
  }
  std::string urls = " {}/large";
  for (int i = 0; i < 19; ++i) {
    urls += concat(" {}/", i);
  }
  const auto report =
      shell(concat("h2load -n 100 -c 1 -m 100", urls, " | grep -E 'requests:|traffic'"));
  EXPECT_NE(std::string::npos, report.find("100 succeeded, 0 failed, 0 errored")) << report;
  EXPECT_EQ(1U, connections());
  EXPECT_EQ(100U, requests());
}

TEST_F(Http2, H2loadGetsEveryAnswer) {
  if (::access("/usr/bin/h2load", X_OK) != 0) {
    GTEST_SKIP() << "h2load is not installed";
  }
  const auto report = shell("h2load -n 5000 -c 4 -m 100 {}/ | grep -E 'requests:|status'");
  EXPECT_NE(std::string::npos, report.find("5000 succeeded, 0 failed, 0 errored")) << report;
  EXPECT_NE(std::string::npos, report.find("5000 2xx")) << report;
}

TEST(Http2Tls, IsChosenByAlpn) {
  if (::access("/usr/bin/curl", X_OK) != 0) {
    GTEST_SKIP() << "curl is not installed";
  }
  const auto authority = *tls::mint_authority({.common_name = "test authority"});
  const auto context =
      *tls::Context::server({.identity = *tls::mint_leaf(authority, {.names = {"localhost"}}),
                             .protocols = {"h2", "http/1.1"}});
  TestServer server{describe, {}, {.tls = context.get()}};
  char directory[] = "/tmp/atoll-h2-XXXXXX";
  ASSERT_NE(nullptr, ::mkdtemp(directory));
  const std::string ca = concat(directory, "/ca.crt");
  ASSERT_TRUE(replace_file(ca, authority.certificate_pem, {.mode = 0600}));
  io::OffloadPool pool{"curl", 1, 4};
  const auto curl = concat("curl -q -sS --noproxy '*' --max-time 60 --cacert ", ca, " ");
  const auto url = concat("https://localhost:", server.server().port());
  const auto answer = server.run(run_shell(
      pool, concat("head -c 5000000 /dev/zero | ", curl, "--http2 -w '%{http_version} ' ",
                   "--data-binary @- ", url, "/a; ", curl, "--http1.1 -w '%{http_version} ' ", url,
                   "/b; ", curl, "--http2 ", url, "/large | wc -c")));
  ::unlink(ca.c_str());
  ::rmdir(directory);
  EXPECT_EQ("POST /a 5000000\n2 GET /b 0\n1.1 20000000\n", answer);
}

}  // namespace
}  // namespace atl::http
