// The real reactor: streams, timers, offload, descriptor passing, cancellation of socket waits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <thread>

#include "io/fd_passing.h"
#include "io/offload.h"
#include "io/reactor.h"
#include "io/stream.h"

namespace atl::io {
namespace {

using namespace std::chrono_literals;

struct Pair {
  std::unique_ptr<FdStream> left;
  std::unique_ptr<FdStream> right;
};

Pair make_pair(Reactor& reactor) {
  int fds[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  return {std::make_unique<FdStream>(reactor, Fd{fds[0]}),
          std::make_unique<FdStream>(reactor, Fd{fds[1]})};
}

Task<> write_all_and_finish(Stream& stream, const std::string& bytes) {
  CO_TRY_DO(co_await stream.write(bytes));
  co_return stream.finish_writing();
}

Task<std::string> read_to_end(Stream& stream) {
  std::string all;
  char buffer[4096];
  for (;;) {
    CO_TRY(const auto got, co_await stream.read(buffer));
    if (got == 0) {
      co_return all;
    }
    all.append(buffer, got);
  }
}

Task<std::string> transfer(Pair& pair, const std::string& bytes) {
  Scope scope{co_await current_context()};
  scope.spawn("writer", write_all_and_finish(*pair.left, bytes));
  auto received = co_await read_to_end(*pair.right);
  CO_TRY_DO(co_await scope.join());
  co_return std::move(received);
}

TEST(FdStream, CarriesMoreThanTheSocketBufferHolds) {
  Reactor reactor;
  auto pair = make_pair(reactor);
  std::string bytes(8 << 20, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 4097) {
    bytes[i] = static_cast<char>(i);
  }
  auto received = reactor.run_until_complete(transfer(pair, bytes));
  ASSERT_TRUE(received);
  EXPECT_TRUE(*received == bytes);
}

Task<std::size_t> read_some(Stream& stream, std::span<char> buffer) {
  co_return co_await stream.read(buffer);
}

TEST(FdStream, ReadCanBeCancelledAndTheStreamUsedAgain) {
  Reactor reactor;
  auto pair = make_pair(reactor);
  char buffer[16];
  auto timed_out = reactor.run_until_complete(with_deadline(5ms, read_some(*pair.right, buffer)));
  EXPECT_EQ(Code::kDeadlineExceeded, timed_out.error().code);
  ASSERT_TRUE(reactor.run_until_complete(pair.left->write("hi")));
  auto got = reactor.run_until_complete(read_some(*pair.right, buffer));
  ASSERT_TRUE(got);
  EXPECT_EQ("hi", std::string_view(buffer, *got));
}

Task<> note_after(Duration delay, std::string name, std::string& order) {
  auto slept = co_await sleep_for(delay);
  order += slept ? name : "x";
  co_return std::move(slept);
}

Task<> sleepers(std::string& order) {
  Scope cancelled{co_await current_context()};
  Scope scope{co_await current_context()};
  cancelled.spawn("first", note_after(1ms, "0", order));  // the earliest, and it goes away
  scope.spawn("c", note_after(30ms, "c", order));
  scope.spawn("b", note_after(20ms, "b", order));
  CO_TRY_DO(co_await cancelled.cancel_and_join());
  scope.spawn("a", note_after(5ms, "a", order));
  scope.spawn("now", note_after(0ms, "n", order));
  co_return co_await scope.join();
}

TEST(Timers, FireInOrderAlsoWhenTheEarliestWasCancelled) {
  Reactor reactor;
  std::string order;
  ASSERT_TRUE(reactor.run_until_complete(sleepers(order)));
  EXPECT_EQ("xnabc", order);
}

struct OtherTask {
  bool ran = false;
};

Task<> yield_until(OtherTask& other) {
  while (!other.ran) {
    CO_TRY_DO(co_await sleep_for(0ms));
  }
  co_return ok();
}

Task<> let_others_run(Reactor& reactor, OtherTask& other) {
  reactor.post([&other] { other.ran = true; });
  co_return co_await yield_until(other);
}

TEST(Timers, ASleepOfNothingLetsOthersRun) {
  Reactor reactor;
  OtherTask other;
  EXPECT_TRUE(reactor.run_until_complete(let_others_run(reactor, other)));
}

Task<> wait_for(FdWatch& watch) {
  co_return co_await watch.readable();
}

Task<> wait_for_bytes(Stream& stream) {
  co_return co_await stream.wait_readable();
}

// A wait that was given up stays armed in the reactor; what it reports later is old news.
TEST(FdStream, ReadinessOfBytesAlreadyReadIsNotReported) {
  Reactor reactor;
  auto pair = make_pair(reactor);
  char buffer[16];
  auto given_up = reactor.run_until_complete(with_deadline(1ms, wait_for_bytes(*pair.right)));
  ASSERT_EQ(Code::kDeadlineExceeded, given_up.error().code);
  ASSERT_EQ(2, ::write(pair.left->fd(), "hi", 2));
  ASSERT_EQ(2, ::read(pair.right->fd(), buffer, 2));
  auto quiet = reactor.run_until_complete(with_deadline(50ms, wait_for_bytes(*pair.right)));
  ASSERT_FALSE(quiet);
  EXPECT_EQ(Code::kDeadlineExceeded, quiet.error().code);
}

// The reactor turns interest off when bytes come that nobody waits for; the next wait sees them.
TEST(FdWatch, BytesThatNobodyWaitedForAreSeenLater) {
  Reactor reactor;
  auto pair = make_pair(reactor);
  auto given_up = reactor.run_until_complete(with_deadline(1ms, wait_for_bytes(*pair.right)));
  ASSERT_EQ(Code::kDeadlineExceeded, given_up.error().code);
  ASSERT_EQ(2, ::write(pair.left->fd(), "hi", 2));
  std::string order;
  ASSERT_TRUE(reactor.run_until_complete(note_after(5ms, "x", order)));
  EXPECT_TRUE(reactor.run_until_complete(with_deadline(5s, wait_for_bytes(*pair.right))));
  // Not taken, so they are still there.
  EXPECT_TRUE(reactor.run_until_complete(with_deadline(5s, wait_for_bytes(*pair.right))));
}

// A peer that has closed is reported whether one is interested or not.
TEST(FdWatch, AnEndThatNobodyWaitsForKeepsNobodyBusy) {
  Reactor reactor;
  auto pair = make_pair(reactor);
  auto given_up = reactor.run_until_complete(with_deadline(1ms, wait_for_bytes(*pair.right)));
  ASSERT_EQ(Code::kDeadlineExceeded, given_up.error().code);
  pair.left.reset();
  timespec before{};
  timespec after{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  std::string order;
  ASSERT_TRUE(reactor.run_until_complete(note_after(200ms, "x", order)));
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const auto used_ns =
      (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  EXPECT_LT(used_ns, 100'000'000);
  char buffer[4];
  auto end = reactor.run_until_complete(read_some(*pair.right, buffer));
  ASSERT_TRUE(end);
  EXPECT_EQ(0U, *end);
}

Task<> drop_when_readable(std::unique_ptr<FdStream>& watched, std::unique_ptr<FdStream>& other,
                          int& dropped) {
  CO_TRY_DO(co_await watched->wait_readable());
  dropped += other != nullptr ? 1 : 0;
  other.reset();
  co_return ok();
}

// Both are reported in one turn, and whoever comes first destroys the other.
TEST(FdWatch, OneMayGoWhileItsEventIsDelivered) {
  Reactor reactor;
  auto one = make_pair(reactor);
  auto two = make_pair(reactor);
  for (auto* pair : {&one, &two}) {  // registered, without a waiter
    auto given_up = reactor.run_until_complete(with_deadline(1ms, wait_for_bytes(*pair->right)));
    ASSERT_EQ(Code::kDeadlineExceeded, given_up.error().code);
  }
  ASSERT_EQ(1, ::write(one.left->fd(), "x", 1));
  ASSERT_EQ(1, ::write(two.left->fd(), "x", 1));
  int dropped = 0;
  ASSERT_TRUE(reactor.run_until_complete(drop_when_readable(one.right, two.right, dropped)));
  EXPECT_EQ(1, dropped);
  EXPECT_EQ(nullptr, two.right);
}

TEST(FdWatch, WhatCannotBeWatchedIsAnError) {
  Reactor reactor;
  const Fd file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(file);
  FdWatch watch{reactor, file.get()};
  auto waited = reactor.run_until_complete(wait_for(watch));
  ASSERT_FALSE(waited);
  EXPECT_EQ(Code::kUnavailable, waited.error().code);
}

Task<std::string> echo_once(Listener& listener) {
  CO_TRY(auto stream, co_await listener.accept());
  char buffer[64];
  CO_TRY(const auto got, co_await stream->read(buffer));
  CO_TRY_DO(co_await stream->write({buffer, got}));
  co_return std::string(buffer, got);
}

Task<> ignore_value(Task<std::string> task) {
  CO_TRY_DO(co_await std::move(task));
  co_return ok();
}

Task<std::string> call_echo(Reactor& reactor, Listener& listener) {
  Scope scope{co_await current_context()};
  scope.spawn("echo", ignore_value(echo_once(listener)));
  CO_TRY(auto stream, co_await connect_tcp(reactor, "127.0.0.1", listener.port()));
  CO_TRY_DO(co_await stream->write("pi", "ng"));
  auto answer = co_await read_to_end(*stream);
  CO_TRY_DO(co_await scope.join());
  co_return std::move(answer);
}

TEST(Listener, TcpRoundTrip) {
  Reactor reactor;
  Listener listener{reactor, *Listener::bind_tcp("127.0.0.1", 0)};
  auto answer = reactor.run_until_complete(call_echo(reactor, listener));
  ASSERT_TRUE(answer);
  EXPECT_EQ("ping", *answer);
}

TEST(Connect, RefusedIsAnErrorWithAReason) {
  Reactor reactor;
  auto failed = reactor.run_until_complete(connect_unix(reactor, "/nonexistent/socket"));
  EXPECT_EQ(Code::kNotFound, failed.error().code);
  auto bad = reactor.run_until_complete(connect_tcp(reactor, "no such host", 1));
  EXPECT_EQ(Code::kInvalidArgument, bad.error().code);
}

Task<std::thread::id> where(OffloadPool& pool) {
  co_return co_await pool.run(
      []() -> Result<std::thread::id> { return std::this_thread::get_id(); });
}

TEST(Offload, RunsElsewhereAndComesBack) {
  Reactor reactor;
  OffloadPool pool{"test", 2, 16};
  auto id = reactor.run_until_complete(where(pool));
  ASSERT_TRUE(id);
  EXPECT_NE(std::this_thread::get_id(), *id);
}

TEST(Offload, AFullQueueIsRefused) {
  Reactor reactor;
  OffloadPool pool{"test", 1, 0};
  auto refused = reactor.run_until_complete(where(pool));
  EXPECT_EQ(Code::kResourceExhausted, refused.error().code);
}

TEST(FdPassing, DescriptorsArriveAndOversizeIsRefused) {
  int sockets[2];
  int pipes[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
  ASSERT_EQ(0, ::pipe(pipes));
  const Fd a{sockets[0]};
  const Fd b{sockets[1]};
  Fd reader{pipes[0]};
  const Fd writer{pipes[1]};
  ASSERT_TRUE(send_datagram(a.get(), "take this", {reader.get()}));
  reader.reset();
  auto datagram = receive_datagram(b.get(), 64);
  ASSERT_TRUE(datagram);
  EXPECT_EQ("take this", datagram->bytes);
  ASSERT_EQ(1U, datagram->fds.size());
  ASSERT_EQ(2, ::write(writer.get(), "ok", 2));
  char buffer[2];
  EXPECT_EQ(2, ::read(datagram->fds[0].get(), buffer, 2));
  ASSERT_TRUE(send_datagram(a.get(), std::string(65, 'x')));
  EXPECT_FALSE(receive_datagram(b.get(), 64));
}

}  // namespace
}  // namespace atl::io
