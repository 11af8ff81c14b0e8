// The reactor in disorder: descriptors whose numbers are in use again at once, waits that are given
// up, ends that nobody waits for, callbacks from other threads. Whatever gets lost in it is a task
// that never ends, so each test has a deadline that only a loss can reach.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/offload.h"
#include "io/reactor.h"
#include "io/stream.h"

namespace atl::io {
namespace {

using namespace std::chrono_literals;

using Random = std::minstd_rand;

constexpr auto kLost = 100s;

std::size_t up_to(Random& random, std::size_t most) {
  return std::uniform_int_distribution<std::size_t>{0, most}(random);
}

bool one_in(Random& random, std::size_t count) {
  return up_to(random, count - 1) == 0;
}

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

// What stands at a place of the stream: a piece that is lost, doubled or another's is seen.
char byte_at(std::size_t place, unsigned seed) {
  return static_cast<char>((place * 31 + seed) % 251);
}

Task<> wait_for_bytes(Stream& stream) {
  co_return co_await stream.wait_readable();
}

Task<> talk(Stream& stream, std::size_t size, unsigned seed) {
  Random random{seed};
  std::string piece;
  for (std::size_t sent = 0; sent < size; sent += piece.size()) {
    piece.resize(std::min(size - sent, 1 + up_to(random, 100'000)));
    for (std::size_t i = 0; i < piece.size(); ++i) {
      piece[i] = byte_at(sent + i, seed);
    }
    CO_TRY_DO(co_await stream.write(piece));
    if (one_in(random, 8)) {
      CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{up_to(random, 2)}));
    }
  }
  co_return stream.finish_writing();
}

Task<> listen(Stream& stream, std::size_t size, unsigned seed) {
  Random random{seed + 1};
  std::vector<char> buffer(70'000);
  std::size_t received = 0;
  for (;;) {
    if (one_in(random, 4)) {
      // Given up more often than not; the interest stays behind.
      [[maybe_unused]] auto waited = co_await with_deadline(
          std::chrono::milliseconds{up_to(random, 1)}, wait_for_bytes(stream));
    }
    CO_TRY(const std::size_t got,
           co_await stream.read(std::span{buffer}.first(1 + up_to(random, buffer.size() - 1))));
    if (got == 0) {
      break;
    }
    for (std::size_t i = 0; i < got; ++i) {
      if (buffer[i] != byte_at(received + i, seed)) {
        co_return fail(Code::kInternal, "a byte that was not sent there");
      }
    }
    received += got;
  }
  co_return received == size ? ok() : fail(Code::kInternal, "bytes are missing");
}

// Both ways at once, so that both directions of both descriptors are waited for, and each ends
// while the other may go on.
Task<> converse(Reactor& reactor, Random& random) {
  auto pair = make_pair(reactor);
  const std::size_t there = up_to(random, 600'000);
  const std::size_t back = up_to(random, 600'000);
  const auto seed = static_cast<unsigned>(random());
  Error wrong;
  bool all_well = true;
  Scope scope{co_await current_context()};
  scope.on_error([&](const char*, const Error& error) {
    all_well = false;
    wrong = error;
  });
  scope.spawn("listener", listen(*pair.right, there, seed));
  scope.spawn("answer", talk(*pair.right, back, seed + 7));
  scope.spawn("answered", listen(*pair.left, back, seed + 7));
  scope.spawn("talker", talk(*pair.left, there, seed));
  CO_TRY_DO(co_await scope.join());
  co_return all_well ? ok() : fail(std::move(wrong));
}

// Interest without a waiter; then the peer speaks or goes, and the numbers are free again.
Task<> walk_away(Reactor& reactor, Random& random) {
  auto pair = make_pair(reactor);
  auto waited = co_await with_deadline(std::chrono::milliseconds{up_to(random, 1)},
                                       wait_for_bytes(*pair.right));
  EXPECT_FALSE(waited);
  if (one_in(random, 2)) {
    pair.left->write_now("late");
  } else {
    pair.left.reset();
  }
  if (one_in(random, 2)) {
    CO_TRY_DO(co_await sleep_for(0ms));
  }
  co_return ok();
}

Task<> come_and_go(Reactor& reactor, OffloadPool& pool, unsigned seed, unsigned rounds) {
  Random random{seed};
  for (unsigned round = 0; round < rounds; ++round) {
    switch (up_to(random, 3)) {
      case 0:
        CO_TRY_DO(co_await converse(reactor, random));
        break;
      case 1:
        CO_TRY_DO(co_await pool.run([] { return Result<>{}; }));
        break;
      default:
        CO_TRY_DO(co_await walk_away(reactor, random));
        break;
    }
  }
  co_return ok();
}

Task<> many(Reactor& reactor, OffloadPool& pool) {
  Scope scope{co_await current_context()};
  std::vector<std::string> failures;
  scope.on_error([&](const char*, const Error& error) { failures.push_back(error.message); });
  for (unsigned seed = 1; seed <= 12; ++seed) {
    scope.spawn("one", come_and_go(reactor, pool, seed, 20));
  }
  CO_TRY_DO(co_await scope.join());
  EXPECT_EQ(std::vector<std::string>{}, failures);
  co_return ok();
}

TEST(ReactorDisorder, NothingIsLostBetweenDescriptorsThatComeAndGo) {
  Reactor reactor;
  OffloadPool pool{"work", 3, 1000};
  auto done = reactor.run_until_complete(with_deadline(kLost, many(reactor, pool)));
  EXPECT_TRUE(done) << done.error().message;
}

struct Arrivals {
  std::size_t count = 0;  // of the loop
  Event all;
};

Task<> wait_for_all(Arrivals& arrivals) {
  co_return co_await arrivals.all.wait();
}

// Callbacks of other threads, of which each may find the loop asleep, just waking up or just
// falling asleep.
TEST(ReactorDisorder, NoCallbackOfAnotherThreadIsLost) {
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kEach = 2'000;
  Reactor reactor;
  Arrivals arrivals;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&reactor, &arrivals, i] {
      Random random{static_cast<unsigned>(i + 1)};
      const auto ran = std::make_shared<std::atomic<std::size_t>>(0);
      for (std::size_t posted = 0; posted < kEach; ++posted) {
        reactor.post([&arrivals, ran] {
          ++*ran;
          if (++arrivals.count == kThreads * kEach) {
            arrivals.all.set();
          }
        });
        if (one_in(random, 3)) {  // so that the loop goes to sleep in between
          for (int turn = 0; turn < 10 && ran->load() <= posted; ++turn) {
            std::this_thread::yield();
          }
        }
      }
    });
  }
  auto done = reactor.run_until_complete(with_deadline(kLost, wait_for_all(arrivals)));
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(kThreads * kEach, arrivals.count);
}

}  // namespace
}  // namespace atl::io
