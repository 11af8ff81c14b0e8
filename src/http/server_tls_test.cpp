// The server behind TLS: our client, curl, clients that stall or speak plain HTTP.
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

struct Certificates {
  tls::Identity authority = *tls::mint_authority({.common_name = "test authority"});
  std::unique_ptr<tls::Context> server = *tls::Context::server(
      {.identity = *tls::mint_leaf(authority, {.names = {"127.0.0.1", "localhost"}}),
       .protocols = {"h2", "http/1.1"}});
  std::unique_ptr<tls::Context> client =
      *tls::Context::client({.trusted_pem = authority.certificate_pem, .protocols = {"http/1.1"}});
};

Task<> echo(Exchange& exchange) {
  if (exchange.request().path == "/ws") {
    CO_TRY(auto socket, co_await exchange.accept_websocket({.ping_interval = 10ms}));
    for (;;) {
      CO_TRY(const auto message, co_await socket->receive());
      if (message.kind == WebSocketMessage::Kind::kClose) {
        co_return ok();
      }
      CO_TRY_DO(co_await socket->send_binary(message.payload));
    }
  }
  if (exchange.request().path == "/wait") {
    CO_TRY_DO(co_await exchange.client_gone());
    co_return co_await exchange.respond({200, {}, "gone"});
  }
  CO_TRY(auto body, co_await read_all(exchange.body(), 8 << 20));
  co_return co_await exchange.respond({200, {}, std::move(body)});
}

class ServerTls : public ::testing::Test {
 protected:
  Url url() const {
    auto url = server_.url();
    url.secure = true;
    return url;
  }
  std::uint64_t failures() {
    return server_.metrics().counter("atoll_http_tls_failures_total", "").value();
  }

  Certificates certificates_;
  TestServer server_{echo, {.header_timeout = 200ms}, {.tls = certificates_.server.get()}};
};

TEST_F(ServerTls, LargeBodiesGoBothWaysAndTheConnectionIsKept) {
  struct Steps {
    static Task<> run(Client& client) {
      const std::string body(5 << 20, 'b');
      for (int i = 0; i < 2; ++i) {
        CO_TRY(auto response, co_await client.send("POST", "/", {}, body));
        CO_TRY(const auto echoed, co_await read_all(response->body(), 8 << 20));
        EXPECT_EQ(body.size(), echoed.size());
      }
      co_return ok();
    }
  };
  Client client{server_.reactor(), url(), certificates_.client.get()};
  const auto done = server_.run(Steps::run(client));
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(ServerTls, AWebSocketWorksAndPingsDoNotDisturbIt) {
  struct Steps {
    static Task<> run(Client& client) {
      CO_TRY(auto socket, co_await client.connect_websocket("/ws", {}, {.ping_interval = 10ms}));
      const std::string large(300'000, 'w');
      for (int i = 0; i < 20; ++i) {
        CO_TRY_DO(co_await socket->send_binary(large));
        CO_TRY(const auto message, co_await socket->receive());
        EXPECT_EQ(large, message.payload);
        CO_TRY_DO(co_await sleep_for(5ms));
      }
      co_return co_await socket->close(1000, "");
    }
  };
  Client client{server_.reactor(), url(), certificates_.client.get()};
  const auto done = server_.run(Steps::run(client));
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(ServerTls, AnUntrustedServerIsRefusedByTheClient) {
  struct Steps {
    static Task<> run(Client& client) {
      CO_TRY_DO(co_await client.send("GET", "/", {}));
      co_return ok();
    }
  };
  const Certificates others;
  Client client{server_.reactor(), url(), others.client.get()};
  EXPECT_FALSE(server_.run(Steps::run(client)));
}

TEST_F(ServerTls, PlainHttpIsToldToUseHttps) {
  const auto answer = server_.run(exchange_raw(server_, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 400 ")) << *answer;
  EXPECT_NE(std::string::npos, answer->find("https://"));
  EXPECT_EQ(1U, failures());
}

TEST_F(ServerTls, AHandshakeThatStallsOrIsGarbageEnds) {
  for (const std::string_view bytes : {"", "\x16\x03\x01", "\x80garbage garbage garbage"}) {
    Certificates certificates;
    TestServer server{echo, {.header_timeout = 50ms}, {.tls = certificates.server.get()}};
    EXPECT_TRUE(server.run(exchange_raw(server, std::string{bytes})));
    EXPECT_EQ(1U, server.metrics().counter("atoll_http_tls_failures_total", "").value());
  }
}

TEST_F(ServerTls, CurlAgrees) {
  if (::access("/usr/bin/curl", X_OK) != 0) {
    GTEST_SKIP() << "curl is not installed";
  }
  char directory[] = "/tmp/atoll-tls-XXXXXX";
  ASSERT_NE(nullptr, ::mkdtemp(directory));
  const std::string ca = concat(directory, "/ca.crt");
  ASSERT_TRUE(replace_file(ca, certificates_.authority.certificate_pem, {.mode = 0600}));
  io::OffloadPool pool{"curl", 1, 4};
  const auto answer = server_.run(run_shell(
      pool,
      concat("head -c 2000000 /dev/zero | curl -q -sS --http1.1 --noproxy '*' --cacert ", ca,
             " --data-binary @- https://localhost:", server_.server().port(), "/ 2>&1 | wc -c")));
  ::unlink(ca.c_str());
  ::rmdir(directory);
  EXPECT_EQ("2000000\n", answer);
}

}  // namespace
}  // namespace atl::http
