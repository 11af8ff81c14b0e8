// The client against our server (large and streamed bodies) and against servers that misbehave.
#include "http/client.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"
#include "http/http1_vectors.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

#if __has_feature(address_sanitizer)
constexpr bool kCountsMemory = false;  // the sanitizer keeps freed memory for a while
#else
constexpr bool kCountsMemory = true;
#endif

std::size_t resident_kib() {
  const auto status = read_file("/proc/self/status");
  CHECK(status);
  const auto at = status->find("VmRSS:");
  return std::strtoul(status->c_str() + at + 6, nullptr, 10);
}

constexpr std::uint64_t kLargeBytes = 256 << 20;

char pattern(std::uint64_t at) {
  return static_cast<char>((at * 31 + (at >> 16)) & 0xFF);
}

// Cheap to make and to check: every 4096th byte is a pattern, the rest is zero.
void fill_pattern(std::span<char> buffer, std::uint64_t offset) {
  std::memset(buffer.data(), 0, buffer.size());
  for (std::uint64_t at = (offset + 4095) / 4096 * 4096; at < offset + buffer.size(); at += 4096) {
    buffer[at - offset] = pattern(at);
  }
}

bool has_pattern(std::span<const char> buffer, std::uint64_t offset) {
  for (std::uint64_t at = (offset + 4095) / 4096 * 4096; at < offset + buffer.size(); at += 4096) {
    if (buffer[at - offset] != pattern(at)) {
      return false;
    }
  }
  return true;
}

struct Large {
  std::uint64_t sent = 0;
  std::uint64_t most_resident_kib = 0;

  Task<std::size_t> next(std::span<char> buffer) {
    const auto size = std::min<std::uint64_t>(buffer.size(), kLargeBytes - sent);
    fill_pattern(buffer.first(size), sent);
    sent += size;
    if (sent % (16 << 20) < size) {
      most_resident_kib = std::max<std::uint64_t>(most_resident_kib, resident_kib());
    }
    co_return size;
  }
};

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

Task<> count_body(Exchange& exchange) {
  std::uint64_t total = 0;
  bool right = true;
  std::string buffer(std::size_t{64} * 1024, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer));
    if (got == 0) {
      break;
    }
    right = right && has_pattern({buffer.data(), got}, total);
    total += got;
  }
  co_return co_await exchange.respond({200, {}, concat(right ? "right " : "wrong ", total)});
}

Task<std::string> upload(Client& client, Large& large, std::optional<std::uint64_t> length) {
  CO_TRY(auto response,
         co_await client.send_stream("PUT", "/", {}, length, [&large](std::span<char> buffer) {
           return large.next(buffer);
         }));
  co_return co_await read_all(response->body(), 100);
}

TEST(Client, UploadsALargeBodyInConstantMemory) {
  for (const auto length : {std::optional{kLargeBytes}, std::optional<std::uint64_t>{}}) {
    TestServer server{count_body};
    Client client{server.reactor(), server.url()};
    Large large;
    const auto before_kib = resident_kib();
    EXPECT_EQ(concat("right ", kLargeBytes), server.run(upload(client, large, length)));
    if (kCountsMemory) {
      EXPECT_LT(large.most_resident_kib, before_kib + std::size_t{8} * 1024);
    }
  }
}

Task<> send_large(Exchange& exchange) {
  std::string buffer(std::size_t{64} * 1024, '\0');
  const bool chunked = exchange.request().path == "/chunked";
  CO_TRY_DO(co_await exchange.start(200, {}, chunked ? std::nullopt : std::optional{kLargeBytes}));
  for (std::uint64_t sent = 0; sent < kLargeBytes; sent += buffer.size()) {
    fill_pattern(buffer, sent);
    CO_TRY_DO(co_await exchange.write(buffer));
  }
  co_return co_await exchange.finish();
}

Task<std::uint64_t> download(Client& client, std::string path) {
  CO_TRY(auto response, co_await client.send("GET", path, {}));
  std::string buffer(std::size_t{64} * 1024, '\0');
  const auto before_kib = resident_kib();
  std::uint64_t total = 0;
  for (;;) {
    CO_TRY(const auto got, co_await response->body().read(buffer));
    if (got == 0) {
      break;
    }
    if (!has_pattern({buffer.data(), got}, total)) {
      co_return fail(Code::kDataLoss, concat("wrong bytes near ", total));
    }
    total += got;
  }
  if (kCountsMemory) {
    EXPECT_LT(resident_kib(), before_kib + std::size_t{8} * 1024);
  }
  co_return total;
}

TEST(Client, DownloadsALargeBodyInConstantMemory) {
  for (const auto* path : {"/fixed", "/chunked"}) {
    TestServer server{send_large};
    Client client{server.reactor(), server.url()};
    EXPECT_EQ(kLargeBytes, server.run(download(client, path)));
  }
}

struct Pieces {
  std::vector<std::string> left;
  Task<std::size_t> next(std::span<char> buffer) {
    if (left.empty()) {
      co_return std::size_t{0};
    }
    const auto piece = left.front();
    left.erase(left.begin());
    std::ranges::copy(piece, buffer.begin());
    co_return piece.size();
  }
};

Task<std::string> send_pieces(Client& client, Pieces& pieces, std::optional<std::uint64_t> length) {
  CO_TRY(auto response,
         co_await client.send_stream("POST", "/", {}, length, [&pieces](std::span<char> buffer) {
           return pieces.next(buffer);
         }));
  co_return co_await read_all(response->body(), 1000);
}

TEST(Client, StreamsSmallPiecesBothWays) {
  TestServer server{echo_streaming};
  Client client{server.reactor(), server.url()};
  Pieces chunked{{"a", "bc", std::string(16, 'd')}};
  Pieces fixed{{"a", "bc", std::string(16, 'd')}};
  Pieces empty;
  EXPECT_EQ("abcdddddddddddddddd", server.run(send_pieces(client, chunked, std::nullopt)));
  TestServer other{echo_streaming};
  Client second{other.reactor(), other.url()};
  EXPECT_EQ("abcdddddddddddddddd", other.run(send_pieces(second, fixed, 19)));
  TestServer third_server{echo_streaming};
  Client third{third_server.reactor(), third_server.url()};
  EXPECT_EQ("", third_server.run(send_pieces(third, empty, 0)));
}

TEST(Client, ABodyShorterThanAnnouncedIsAnError) {
  TestServer server{echo_streaming};
  Client client{server.reactor(), server.url()};
  Pieces pieces{{"abc"}};
  const auto sent = server.run(send_pieces(client, pieces, 10));
  ASSERT_FALSE(sent);
  EXPECT_EQ(Code::kAborted, sent.error().code);
}

Task<> refuse_early(Exchange& exchange) {
  return exchange.respond({413, {{"connection", "close"}}, "too large"});
}

TEST(Client, AnAnswerBeforeTheBodyIsOutEndsTheUpload) {
  TestServer server{refuse_early};
  Client client{server.reactor(), server.url()};
  Large large;
  EXPECT_EQ("too large", server.run(upload(client, large, kLargeBytes)));
  EXPECT_LT(large.sent, kLargeBytes);
}

// A server that answers each connection with fixed bytes and closes.
struct RawServer {
  explicit RawServer(std::string bytes)
      : listener(reactor, *io::Listener::bind_tcp("127.0.0.1", 0)), answer(std::move(bytes)) {}

  Task<> serve() {
    for (;;) {
      CO_TRY(auto stream, co_await listener.accept());
      ++connections;
      CO_TRY_DO(co_await read_until(*stream, "\r\n\r\n"));
      CO_TRY_DO(co_await stream->write(answer));
    }
  }

  template <class T>
  static Task<T> beside(RawServer& server, Task<T> task) {
    Scope scope{co_await current_context()};
    scope.spawn("raw server", server.serve());
    auto result = co_await std::move(task);
    CO_TRY_DO(co_await scope.cancel_and_join());
    co_return std::move(result);
  }
  template <class T>
  Result<T> run(Task<T> task) {
    return reactor.run_until_complete(beside(*this, std::move(task)));
  }

  io::Reactor reactor;
  io::Listener listener;
  std::string answer;
  int connections = 0;
};

Task<std::string> get_body(Client& client, std::string method = "GET") {
  CO_TRY(auto response, co_await client.send(method, "/", {}));
  co_return co_await read_all(response->body(), 1000);
}

TEST(Client, EveryHostileResponseMeetsItsFate) {
  for (const auto& vector : response_vectors()) {
    SCOPED_TRACE(vector.name);
    RawServer server{vector.bytes};
    Client client{server.reactor, {"127.0.0.1", server.listener.port(), ""}};
    const auto body = server.run(get_body(client));
    EXPECT_EQ(vector.accepted, body.has_value());
    if (vector.accepted && body) {
      EXPECT_EQ(vector.body, *body);
    }
  }
}

// Answers the first request of a connection, and closes when the second has come.
Task<> answer_once_then_close(io::Listener& listener, int& requests) {
  for (;;) {
    CO_TRY(auto stream, co_await listener.accept());
    CO_TRY_DO(co_await read_until(*stream, "\r\n\r\n"));
    ++requests;
    CO_TRY_DO(co_await stream->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    auto second = co_await read_until(*stream, "\r\n\r\n");
    requests += second ? 1 : 0;
  }
}

Task<Code> call_twice(io::Listener& listener, Client& client, std::string method, int& requests) {
  Scope scope{co_await current_context()};
  scope.spawn("server", answer_once_then_close(listener, requests));
  auto first = co_await get_body(client, method);
  auto second = co_await get_body(client, method);
  EXPECT_TRUE(first);
  CO_TRY_DO(co_await scope.cancel_and_join());
  co_return second ? Code::kUnknown : second.error().code;
}

TEST(Client, RepeatsAGetWhenTheKeptConnectionDied) {
  io::Reactor reactor;
  io::Listener listener{reactor, *io::Listener::bind_tcp("127.0.0.1", 0)};
  Client client{reactor, {"127.0.0.1", listener.port(), ""}};
  int requests = 0;
  EXPECT_EQ(Code::kUnknown,
            reactor.run_until_complete(call_twice(listener, client, "GET", requests)));
  EXPECT_EQ(3, requests);
}

TEST(Client, NeverRepeatsAPost) {
  io::Reactor reactor;
  io::Listener listener{reactor, *io::Listener::bind_tcp("127.0.0.1", 0)};
  Client client{reactor, {"127.0.0.1", listener.port(), ""}};
  int requests = 0;
  EXPECT_EQ(Code::kUnavailable,
            reactor.run_until_complete(call_twice(listener, client, "POST", requests)));
  EXPECT_EQ(2, requests);
}

Task<std::string> post_twice_with_a_pause(Client& client, RawServer& server) {
  CO_TRY_DO(co_await get_body(client, "POST"));
  const int before = server.connections;
  CO_TRY_DO(co_await sleep_for(5ms));  // the close arrives
  CO_TRY(auto second, co_await get_body(client, "POST"));
  EXPECT_EQ(before + 1, server.connections);
  co_return std::move(second);
}

TEST(Client, NoticesAClosedConnectionBeforeUsingIt) {
  RawServer server{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"};
  Client client{server.reactor, {"127.0.0.1", server.listener.port(), ""}};
  EXPECT_EQ("ok", server.run(post_twice_with_a_pause(client, server)));
}

Task<int> drop_response_then_get(Client& client) {
  CO_TRY(auto dropped, co_await client.send("GET", "/fixed", {}));
  dropped.reset();
  CO_TRY(auto response, co_await client.send("GET", "/fixed", {}));
  co_return response->status();
}

TEST(Client, DroppingAResponseClosesItsConnection) {
  TestServer server{send_large};
  Client client{server.reactor(), server.url()};
  EXPECT_EQ(200, server.run(drop_response_then_get(client)));
  EXPECT_EQ(2U, server.connections_seen());
}

TEST(Client, ARequestCannotBeSplit) {
  io::Reactor reactor;
  Client client{reactor, {"127.0.0.1", 1, ""}};
  for (const auto& [path, value] : std::vector<std::pair<std::string, std::string>>{
           {"/a b", "x"}, {"/a\r\nb: c", "x"}, {"a", "x"}, {"/", "x\r\ny: z"}, {"/", "x\ny"}}) {
    auto sent = reactor.run_until_complete(client.send("GET", path, {{"x", value}}));
    ASSERT_FALSE(sent);
    EXPECT_EQ(Code::kInvalidArgument, sent.error().code);
  }
}

}  // namespace
}  // namespace atl::http
