// The server over time: timeouts, draining, clients that leave, stall or come in crowds.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/strings.h"
#include "http/client.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

Task<> say_hello(Exchange& exchange) {
  return exchange.respond({200, {}, "hello"});
}

TEST(ServerTimeouts, ASlowHeadGets408) {
  TestServer server{say_hello, {.header_timeout = 30ms}};
  const auto answer = server.run(exchange_raw(server, "GET / HTTP/1.1\r\nHost:"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 408 "));
}

TEST(ServerTimeouts, ASilentConnectionIsClosedWithoutAWord) {
  TestServer server{say_hello, {.header_timeout = 30ms}};
  EXPECT_EQ("", server.run(exchange_raw(server, "")));
}

TEST(ServerTimeouts, AnIdleConnectionIsClosedAfterItsAnswer) {
  TestServer server{say_hello, {.idle_timeout = 30ms}};
  const auto answer = server.run(exchange_raw(server, std::string{kGet}));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->ends_with("\r\n\r\nhello"));
}

struct Noted {
  std::optional<Error> error;
  std::uint64_t bytes = 0;
  bool called = false;
};

Task<> read_body_noting(Exchange& exchange, Noted& noted) {
  auto body = co_await read_all(exchange.body(), 100);
  if (!body) {
    noted.error = body.error();
    co_return fail(std::move(body).error());
  }
  co_return co_await exchange.respond({200, {}, {}});
}

TEST(ServerTimeouts, ABodyThatStallsIsAnErrorOfTheReader) {
  Noted noted;
  TestServer server{[&noted](Exchange& exchange) { return read_body_noting(exchange, noted); },
                    {.stall_timeout = 30ms}};
  const auto answer = server.run(
      exchange_raw(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"));
  ASSERT_TRUE(answer);
  ASSERT_TRUE(noted.error);
  EXPECT_EQ("client_stalled", noted.error->reason);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 408 "));
}

constexpr std::uint64_t kMuch = 64 << 20;

Task<> write_much(Exchange& exchange, Noted& noted) {
  const std::string piece(std::size_t{64} * 1024, 'x');
  CO_TRY_DO(co_await exchange.start(200, {}, kMuch));
  while (noted.bytes < kMuch) {
    auto written = co_await exchange.write(piece);
    if (!written) {
      noted.error = written.error();
      co_return std::move(written);
    }
    noted.bytes += piece.size();
  }
  co_return co_await exchange.finish();
}

TEST(ServerTimeouts, AClientThatDoesNotReadIsAnErrorOfTheWriter) {
  Noted noted;
  TestServer server{[&noted](Exchange& exchange) { return write_much(exchange, noted); },
                    {.stall_timeout = 30ms}};
  struct Steps {
    static Task<> run(TestServer& server, Noted& noted) {
      CO_TRY(auto stream, co_await connect_raw(server));
      CO_TRY_DO(co_await stream->write(kGet));
      while (!noted.error) {
        CO_TRY_DO(co_await sleep_for(5ms));
      }
      co_return ok();
    }
  };
  EXPECT_TRUE(server.run(Steps::run(server, noted)));
  EXPECT_EQ("client_stalled", noted.error->reason);
  EXPECT_LT(noted.bytes, kMuch);
}

TEST(Server, AWriterWaitsForASlowReader) {
  Noted noted;
  TestServer server{[&noted](Exchange& exchange) { return write_much(exchange, noted); }};
  struct Steps {
    static Task<std::size_t> run(TestServer& server, Noted& noted) {
      CO_TRY(auto stream, co_await connect_raw(server));
      CO_TRY_DO(co_await stream->write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
      // Until the writer has stopped making progress: only what the kernel buffers may be gone.
      for (std::uint64_t before = UINT64_MAX; before != noted.bytes;) {
        before = noted.bytes;
        CO_TRY_DO(co_await sleep_for(50ms));
      }
      EXPECT_LT(noted.bytes, kMuch / 2);
      CO_TRY(const auto all, co_await read_to_end(*stream));
      co_return all.size();
    }
  };
  const auto got = server.run(Steps::run(server, noted));
  ASSERT_TRUE(got);
  EXPECT_GT(*got, kMuch);
  EXPECT_EQ(kMuch, noted.bytes);
}

struct Gate {
  Event entered;
  Event open;
};

Task<> wait_at_gate(Exchange& exchange, Gate& gate) {
  gate.entered.set();
  CO_TRY_DO(co_await gate.open.wait());
  co_return co_await exchange.respond({200, {}, "done"});
}

TEST(ServerDrain, FinishesTheRunningRequestAndRefusesNewClients) {
  Gate gate;
  TestServer server{[&gate](Exchange& exchange) { return wait_at_gate(exchange, gate); }};
  struct Steps {
    static Task<std::string> run(TestServer& server, Gate& gate) {
      CO_TRY(auto busy, co_await connect_raw(server));
      CO_TRY(auto idle, co_await connect_raw(server));
      CO_TRY_DO(co_await busy->write(kGet));
      CO_TRY_DO(co_await gate.entered.wait());
      server.server().drain();
      CO_TRY(const auto nothing, co_await read_to_end(*idle));
      EXPECT_EQ("", nothing);
      auto refused = co_await connect_raw(server);
      EXPECT_FALSE(refused);
      gate.open.set();
      co_return co_await read_to_end(*busy);
    }
  };
  const auto answer = server.run(Steps::run(server, gate));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(std::string::npos, answer->find("connection: close\r\n"));
  EXPECT_TRUE(answer->ends_with("done"));
}

Task<> follow_for_ever(Exchange& exchange, Gate& gate) {
  CO_TRY_DO(co_await exchange.start(200, {}, std::nullopt));
  gate.entered.set();
  CO_TRY_DO(co_await exchange.server_stops().wait());
  co_return fail(Code::kUnavailable, "the server stops");
}

TEST(ServerDrain, TellsAnswersWithoutAnEnd) {
  Gate gate;
  TestServer server{[&gate](Exchange& exchange) { return follow_for_ever(exchange, gate); }};
  struct Steps {
    static Task<std::string> run(TestServer& server, Gate& gate) {
      CO_TRY(auto follower, co_await connect_raw(server));
      CO_TRY_DO(co_await follower->write(kGet));
      CO_TRY_DO(co_await gate.entered.wait());
      server.server().drain();
      co_return co_await read_to_end(*follower);
    }
  };
  const auto answer = server.run(Steps::run(server, gate));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(answer->ends_with("0\r\n\r\n"));  // nobody takes it for the whole
}

TEST(ServerDrain, BeforeRunMeansNothingIsServed) {
  TestServer server{say_hello};
  server.server().drain();
  EXPECT_TRUE(server.reactor().run_until_complete(server.server().run()));
}

TEST(Server, CancellationEndsEverything) {
  Gate gate;
  TestServer server{[&gate](Exchange& exchange) { return wait_at_gate(exchange, gate); }};
  struct Steps {
    static Task<> run(TestServer& server, Gate& gate) {
      Scope scope{co_await current_context()};
      scope.spawn("server", server.server().run());
      CO_TRY(auto busy, co_await connect_raw(server));
      CO_TRY(auto idle, co_await connect_raw(server));
      CO_TRY_DO(co_await busy->write(kGet));
      CO_TRY_DO(co_await gate.entered.wait());
      CO_TRY_DO(co_await scope.cancel_and_join());
      CO_TRY(const auto nothing, co_await read_to_end(*busy));
      EXPECT_EQ("", nothing);
      co_return ok();
    }
  };
  EXPECT_TRUE(server.reactor().run_until_complete(Steps::run(server, gate)));
  EXPECT_EQ(0, server.connections_open());
}

Task<> note_gone(Exchange& exchange, Noted& noted, Event& gone) {
  CO_TRY_DO(co_await exchange.client_gone());
  noted.called = true;
  gone.set();
  co_return ok();
}

// As a handler does that waits for something else: watch the client beside it.
Task<> wait_or_gone(Exchange& exchange, Noted& noted, Gate& gate) {
  Scope scope{co_await current_context()};
  scope.spawn("gone", note_gone(exchange, noted, gate.open));
  gate.entered.set();
  auto waited = co_await gate.open.wait();
  CO_TRY_DO(co_await scope.cancel_and_join());
  CO_TRY_DO(std::move(waited));
  co_return co_await exchange.respond({200, {}, "waited"});
}

TEST(Server, ClientGoneFiresWhenTheClientLeaves) {
  Noted noted;
  Gate gate;
  TestServer server{[&](Exchange& exchange) { return wait_or_gone(exchange, noted, gate); }};
  struct Steps {
    static Task<> run(TestServer& server, Gate& gate) {
      CO_TRY(auto stream, co_await connect_raw(server));
      CO_TRY_DO(co_await stream->write(kGet));
      CO_TRY_DO(co_await gate.entered.wait());
      stream.reset();
      co_return co_await gate.open.wait();
    }
  };
  EXPECT_TRUE(server.run(Steps::run(server, gate)));
  EXPECT_TRUE(noted.called);
}

TEST(Server, AConnectionIsUsableAfterClientGoneWasCancelled) {
  Noted noted;
  Gate gate;
  TestServer server{[&](Exchange& exchange) { return wait_or_gone(exchange, noted, gate); }};
  struct Steps {
    static Task<> run(TestServer& server, Gate& gate) {
      Client client{server.reactor(), server.url()};
      Scope scope{co_await current_context()};
      for (int i = 0; i < 3; ++i) {
        gate.entered.clear();
        gate.open.clear();
        scope.spawn("opener", open_when_entered(gate));
        CO_TRY(auto response, co_await client.send("GET", "/", {}));
        CO_TRY(const auto body, co_await read_all(response->body(), 100));
        EXPECT_EQ("waited", body);
        CO_TRY_DO(co_await scope.join());
      }
      co_return ok();
    }
    static Task<> open_when_entered(Gate& gate) {
      CO_TRY_DO(co_await gate.entered.wait());
      CO_TRY_DO(co_await sleep_for(2ms));
      gate.open.set();
      co_return ok();
    }
  };
  EXPECT_TRUE(server.run(Steps::run(server, gate)));
  EXPECT_FALSE(noted.called);
  EXPECT_EQ(1U, server.connections_seen());
}

TEST(Server, AFullServerLetsClientsWait) {
  TestServer server{say_hello, {.connections = 1}};
  struct Steps {
    static Task<std::string> run(TestServer& server) {
      CO_TRY(auto first, co_await connect_raw(server));
      CO_TRY_DO(co_await first->write(kGet));
      CO_TRY_DO(co_await read_until(*first, "hello"));
      CO_TRY(auto second, co_await connect_raw(server));
      CO_TRY_DO(co_await second->write(kGet));
      char byte;
      auto early = co_await with_deadline(30ms, second->read({&byte, 1}));
      EXPECT_EQ(Code::kDeadlineExceeded, early.error().code);
      EXPECT_EQ(1, server.connections_open());
      first.reset();
      co_return co_await read_until(*second, "hello");
    }
  };
  EXPECT_TRUE(server.run(Steps::run(server)));
  EXPECT_EQ(2U, server.connections_seen());
}

Task<> say_peer(Exchange& exchange) {
  return exchange.respond({200, {}, exchange.peer()});
}

Task<> serve_on_unix(io::Reactor& reactor, Server& server, std::string path) {
  Scope scope{co_await current_context()};
  scope.spawn("server", server.run());
  CO_TRY(auto stream, co_await io::connect_unix(reactor, path));
  CO_TRY_DO(co_await stream->write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  CO_TRY(const auto answer, co_await read_to_end(*stream));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nunix"));
  server.drain();
  co_return co_await scope.join();
}

TEST(Server, ServesAUnixSocketToo) {
  char directory[] = "/tmp/atoll_http_XXXXXX";
  ASSERT_NE(nullptr, ::mkdtemp(directory));
  const auto path = concat(directory, "/socket");
  io::Reactor reactor;
  Metrics metrics;
  Server server{reactor, *io::Listener::bind_unix(path, 0600), say_peer, {}, metrics};
  EXPECT_TRUE(reactor.run_until_complete(serve_on_unix(reactor, server, path)));
  ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST(Server, KnowsItsPeer) {
  TestServer server{say_peer};
  const auto answer =
      server.run(exchange_raw(server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(answer);
  EXPECT_NE(std::string::npos, answer->find("\r\n\r\n127.0.0.1:"));
}

// A client that pipelines after `connection: close` still gets the whole last answer.
TEST(Server, BytesAfterTheLastRequestDoNotEatTheAnswer) {
  TestServer server{say_hello};
  const auto answer = server.run(exchange_raw(
      server,
      concat("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", std::string(200000, 'x'))));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->ends_with("\r\n\r\nhello"));
}

Task<> many_clients(TestServer& server, int count) {
  struct One {
    static Task<> run(TestServer& server) {
      Client client{server.reactor(), server.url()};
      for (int i = 0; i < 20; ++i) {
        CO_TRY(auto response, co_await client.send("GET", "/", {}));
        CO_TRY(const auto body, co_await read_all(response->body(), 100));
        EXPECT_EQ("hello", body);
      }
      co_return ok();
    }
  };
  Scope scope{co_await current_context()};
  for (int i = 0; i < count; ++i) {
    scope.spawn("client", One::run(server));
  }
  co_return co_await scope.join();
}

TEST(Server, ServesManyClientsAtOnce) {
  TestServer server{say_hello, {.connections = 20}};
  EXPECT_TRUE(server.run(many_clients(server, 50)));
  EXPECT_NE(std::string::npos,
            server.metrics().render().find("atoll_http_responses_total{class=\"2xx\"} 1000\n"));
  EXPECT_EQ(0, server.connections_open());
}

}  // namespace
}  // namespace atl::http
