// TLS over a socketpair with certificates made here: handshake, ALPN, verification, big transfers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <thread>

#include "tls/mint.h"
#include "tls/openssl.h"
#include "tls/stream.h"

namespace atl::tls {
namespace {

struct Fixture {
  Identity authority = *mint_authority({.common_name = "test authority"});
  Identity leaf = *mint_leaf(authority, {.names = {"*.atoll.test", "atoll.test", "127.0.0.1"}});
  std::unique_ptr<Context> server =
      *Context::server({.identity = leaf, .protocols = {"h2", "http/1.1"}});
  std::unique_ptr<Context> client =
      *Context::client({.trusted_pem = authority.certificate_pem, .protocols = {"http/1.1"}});
  io::Reactor reactor;
};

using StreamPtr = std::unique_ptr<io::Stream>;

std::pair<StreamPtr, StreamPtr> make_pair(io::Reactor& reactor) {
  int fds[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  return {std::make_unique<io::FdStream>(reactor, Fd{fds[0]}),
          std::make_unique<io::FdStream>(reactor, Fd{fds[1]})};
}

// Echoes everything back, then says goodbye.
Task<> serve_echo(StreamPtr below, const Context& context, std::string& protocol) {
  CO_TRY(auto stream, co_await TlsStream::accept(std::move(below), context));
  protocol = stream->protocol();
  std::vector<char> buffer(10000);
  for (;;) {
    CO_TRY(const auto got, co_await stream->read(buffer));
    if (got == 0) {
      co_return stream->finish_writing();
    }
    CO_TRY_DO(co_await stream->write({buffer.data(), got}));
  }
}

Task<> send_all(TlsStream& stream, const std::string& bytes) {
  CO_TRY_DO(co_await stream.write(bytes));
  co_return stream.finish_writing();
}

Task<std::string> round_trip(Fixture& fixture, std::string host, const std::string& bytes,
                             std::string& protocol) {
  auto [left, right] = make_pair(fixture.reactor);
  Scope scope{co_await current_context()};
  scope.on_error([](const char*, const Error&) {});
  scope.spawn("server", serve_echo(std::move(left), *fixture.server, protocol));
  std::string received;
  Result<> result;
  {
    auto connected = co_await TlsStream::connect(std::move(right), *fixture.client, host);
    if (connected) {
      auto& stream = **connected;
      scope.spawn("sender", send_all(stream, bytes));
      std::vector<char> buffer(7000);
      while (received.size() < bytes.size()) {
        auto got = co_await stream.read(buffer);
        if (!got || *got == 0) {
          break;
        }
        received.append(buffer.data(), *got);
      }
      CO_TRY_DO(co_await scope.join());
    } else {
      result = fail(connected.error());
    }
  }
  CO_TRY_DO(co_await scope.cancel_and_join());
  CO_TRY_DO(std::move(result));
  co_return received;
}

TEST(Tls, CarriesBytesBothWaysAndNegotiatesTheProtocol) {
  Fixture fixture;
  std::string protocol;
  std::string bytes(3 << 20, 'q');
  bytes[12345] = 'z';
  auto received = fixture.reactor.run_until_complete(
      round_trip(fixture, "sandbox.atoll.test", bytes, protocol));
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_TRUE(*received == bytes);
  EXPECT_EQ("http/1.1", protocol);
}

TEST(Tls, AddressesAreVerifiedToo) {
  Fixture fixture;
  std::string protocol;
  EXPECT_TRUE(fixture.reactor.run_until_complete(round_trip(fixture, "127.0.0.1", "x", protocol)));
}

TEST(Tls, AWrongNameIsRefused) {
  Fixture fixture;
  std::string protocol;
  auto received =
      fixture.reactor.run_until_complete(round_trip(fixture, "evil.example", "x", protocol));
  ASSERT_FALSE(received);
  EXPECT_NE(std::string::npos, received.error().message.find("mismatch"))
      << received.error().message;
}

TEST(Tls, AnUnknownAuthorityIsRefused) {
  Fixture fixture;
  const auto other = *mint_authority({.common_name = "somebody else"});
  fixture.client = *Context::client({.trusted_pem = other.certificate_pem, .protocols = {}});
  std::string protocol;
  EXPECT_FALSE(
      fixture.reactor.run_until_complete(round_trip(fixture, "atoll.test", "x", protocol)));
}

Task<> accept_and_wait(StreamPtr below, const Context& context) {
  CO_TRY(auto stream, co_await TlsStream::accept(std::move(below), context));
  co_return co_await stream->wait_readable();
}

// Asks for key updates and reads none of the answers, until the server has enough.
void flood(Fd fd) {
  const SslContextPtr context{::SSL_CTX_new(::TLS_client_method())};
  const SslPtr ssl{::SSL_new(context.get())};
  ::SSL_set_fd(ssl.get(), fd.get());
  int outcome = ::SSL_connect(ssl.get());
  for (int i = 0; i < 100000 && outcome == 1; ++i) {
    ::SSL_key_update(ssl.get(), SSL_KEY_UPDATE_REQUESTED);
    outcome = ::SSL_do_handshake(ssl.get());
  }
}

TEST(Tls, AnswersThatThePeerDoesNotReadHaveALimit) {
  ::signal(SIGPIPE, SIG_IGN);
  Fixture fixture;
  int fds[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
  ASSERT_EQ(0, ::fcntl(fds[0], F_SETFL, O_NONBLOCK));
  std::jthread client{flood, Fd{fds[1]}};
  const auto waited = fixture.reactor.run_until_complete(
      with_deadline(std::chrono::seconds{30},
                    accept_and_wait(std::make_unique<io::FdStream>(fixture.reactor, Fd{fds[0]}),
                                    *fixture.server)));
  ASSERT_FALSE(waited);
  EXPECT_EQ(Code::kResourceExhausted, waited.error().code) << waited.error().message;
}

TEST(Tls, UnusableCertificatesSayWhatIsWrong) {
  Fixture fixture;
  const auto other = *mint_leaf(fixture.authority, {.names = {"b.test"}});
  auto mixed =
      Context::server({.identity = {fixture.leaf.certificate_pem, other.key_pem}, .protocols = {}});
  ASSERT_FALSE(mixed);
  EXPECT_NE(std::string::npos, mixed.error().message.find("does not belong"));
  EXPECT_FALSE(Context::server({.identity = {"nonsense", other.key_pem}, .protocols = {}}));
  EXPECT_FALSE(mint_leaf(fixture.authority, {.names = {"bad name\n"}}));
  EXPECT_FALSE(mint_leaf(fixture.authority, {.names = {}}));
}

}  // namespace
}  // namespace atl::tls
