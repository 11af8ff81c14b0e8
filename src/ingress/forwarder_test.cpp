// Requests through the forwarder to upstreams that say whatever the test wants.
#include "ingress/forwarder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/strings.h"

namespace atl::ingress {
namespace {

// Answers each connection with the next text, after it has read a head; keeps what it read.
class Upstream {
 public:
  explicit Upstream(io::Reactor& reactor)
      : reactor_(reactor), listener_(reactor, *io::Listener::bind_tcp("127.0.0.1", 0)) {}

  std::deque<std::string> answers;
  std::vector<std::string> seen;
  bool hangs = false;

  Connect connect() {
    return [this](std::string, std::string, std::uint16_t) { return dial(); };
  }
  Task<> run() {
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    for (;;) {
      auto stream = co_await listener_.accept();
      if (!stream) {
        break;
      }
      scope.spawn("connection", serve(*std::move(stream)));
    }
    co_return co_await scope.cancel_and_join();
  }

 private:
  Task<Fd> dial() {
    CO_TRY(const auto stream, co_await io::connect_tcp(reactor_, "127.0.0.1", listener_.port()));
    Fd fd{::fcntl(stream->fd(), F_DUPFD_CLOEXEC, 0)};
    co_return std::move(fd);
  }
  Task<> serve(std::unique_ptr<io::FdStream> stream) {
    while (!answers.empty() || hangs) {
      std::string text;
      std::string buffer(4096, '\0');
      while (text.find("\r\n\r\n") == std::string::npos) {
        CO_TRY(const auto got, co_await stream->read(buffer));
        if (got == 0) {
          co_return ok();
        }
        text.append(buffer, 0, got);
      }
      seen.push_back(std::move(text));
      if (hangs) {
        Event never;
        co_return co_await never.wait();
      }
      const std::string answer = std::move(answers.front());
      answers.pop_front();
      CO_TRY_DO(co_await stream->write(answer));
      if (answer.find("keep") == std::string::npos) {
        co_return ok();
      }
    }
    co_return ok();
  }

  io::Reactor& reactor_;
  io::Listener listener_;
};

class ForwarderTest : public testing::Test {
 protected:
  struct Outcome {
    Result<> forwarded;
    std::string answer;  // what the client got, all of it
  };

  Outcome call(std::string request, Duration timeout = {}) {
    Outcome outcome;
    const auto done = reactor_.run_until_complete(beside(std::move(request), timeout, outcome));
    EXPECT_TRUE(done) << done.error().message;
    return outcome;
  }

  Task<> beside(std::string request, Duration timeout, Outcome& outcome) {
    http::Server server{
        reactor_,
        *io::Listener::bind_tcp("127.0.0.1", 0),
        [&, this](http::Exchange& exchange) { return forward(exchange, timeout, outcome); },
        {},
        metrics_};
    Scope scope{co_await current_context()};
    scope.spawn("upstream", upstream_.run());
    scope.spawn("server", server.run());
    CO_TRY(const auto client, co_await io::connect_tcp(reactor_, "127.0.0.1", server.port()));
    CO_TRY_DO(co_await client->write(request));
    std::string buffer(4096, '\0');
    for (;;) {
      const auto got = co_await with_deadline(std::chrono::seconds{20}, client->read(buffer));
      if (!got || *got == 0) {
        break;
      }
      outcome.answer.append(buffer, 0, *got);
    }
    co_return co_await scope.cancel_and_join();
  }

  Task<> forward(http::Exchange& exchange, Duration timeout, Outcome& outcome) {
    Forward forward;
    forward.upstream = {.sandbox_id = "rs-x", .port = 80};
    forward.method = exchange.request().method;
    forward.path = exchange.request().target;
    forward.fields = request_fields(exchange.request(), {.peer = exchange.peer()});
    forward.timeout = timeout;
    outcome.forwarded = co_await forward_request(exchange, upstreams_, forward, traffic_);
    if (!outcome.forwarded && !exchange.started()) {
      co_return co_await exchange.respond({502, {{"connection", "close"}}, "failed"});
    }
    co_return outcome.forwarded;
  }

  io::Reactor reactor_;
  Metrics metrics_;
  Upstream upstream_{reactor_};
  Upstreams upstreams_{reactor_, upstream_.connect(), nullptr};
  Traffic traffic_;
};

const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

TEST_F(ForwarderTest, PassesAnAnswerOn) {
  upstream_.answers = {
      "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 Fine\r\nX-A: b\r\nConnection: close\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
  const auto outcome = call(kGet);
  EXPECT_TRUE(outcome.forwarded);
  EXPECT_TRUE(outcome.answer.starts_with("HTTP/1.1 200 ")) << outcome.answer;
  EXPECT_NE(outcome.answer.find("x-a: b\r\n"), std::string::npos);
  EXPECT_NE(outcome.answer.find("3\r\nabc\r\n"), std::string::npos);
  EXPECT_EQ(traffic_.bytes_out, 3U);
  ASSERT_EQ(upstream_.seen.size(), 1U);
  EXPECT_TRUE(upstream_.seen[0].starts_with("GET /a HTTP/1.1\r\nhost: x\r\n")) << upstream_.seen[0];
  EXPECT_EQ(upstream_.seen[0].find("connection"), std::string::npos);
}

TEST_F(ForwarderTest, FramesBodiesAnew) {
  upstream_.answers = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
  const auto outcome = call(
      "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n");
  EXPECT_TRUE(outcome.forwarded);
  EXPECT_EQ(traffic_.bytes_in, 3U);
  EXPECT_NE(upstream_.seen[0].find("transfer-encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(upstream_.seen[0].find("content-length"), std::string::npos);
}

TEST_F(ForwarderTest, DoesNotPassNonsenseOn) {
  for (const std::string answer :
       {"nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n"}) {
    upstream_.answers = {answer};
    const auto outcome = call(kGet);
    EXPECT_FALSE(outcome.forwarded) << answer;
    EXPECT_TRUE(outcome.answer.starts_with("HTTP/1.1 502 ")) << answer << outcome.answer;
  }
}

TEST_F(ForwarderTest, NeverMakesHalfAnAnswerWhole) {
  upstream_.answers = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"};
  const auto outcome = call(kGet);
  EXPECT_FALSE(outcome.forwarded);
  EXPECT_NE(outcome.answer.find("hello"), std::string::npos);
  EXPECT_FALSE(outcome.answer.ends_with("0\r\n\r\n"));
}

TEST_F(ForwarderTest, AsksAgainOnAnotherConnectionWhenTheKeptOneHasDied) {
  upstream_.answers = {"HTTP/1.1 200 OK\r\nX: keep\r\nContent-Length: 1\r\n\r\na",
                       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"};
  EXPECT_TRUE(call(kGet).answer.ends_with("a"));
  // The upstream of the first call has ended with its scope, and with it the kept connection.
  EXPECT_TRUE(call(kGet).answer.ends_with("b"));
}

TEST_F(ForwarderTest, ARequestIsNotGivenUpForTheOneBehindIt) {
  upstream_.answers = {"HTTP/1.1 200 OK\r\nX: keep\r\nContent-Length: 1\r\n\r\na",
                       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"};
  const auto outcome = call(concat("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", kGet));
  EXPECT_TRUE(outcome.forwarded);
  EXPECT_NE(outcome.answer.find("\r\n\r\naHTTP/1.1 200 "), std::string::npos) << outcome.answer;
  EXPECT_TRUE(outcome.answer.ends_with("b")) << outcome.answer;
}

TEST_F(ForwarderTest, GivesUpAfterTheTimeout) {
  upstream_.hangs = true;
  const auto outcome = call(kGet, std::chrono::milliseconds{50});
  ASSERT_FALSE(outcome.forwarded);
  EXPECT_EQ(outcome.forwarded.error().code, Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace atl::ingress
