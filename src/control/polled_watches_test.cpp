// Changes that are kept until somebody asks.
#include "control/polled_watches.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/strings.h"
#include "control/limits.h"
#include "io/reactor.h"

namespace atl::control {
namespace {

using guest::FileEvent;
using guest::FileEventType;

const SandboxRef kMine{"team", "mine"};

// Gives what is put into it, then fails or waits.
struct Script {
  std::deque<FileEvent> events;
  bool ends = false;
};

class ScriptedWatch final : public FileWatch {
 public:
  explicit ScriptedWatch(Script script) : FileWatch(nullptr), script_(std::move(script)) {}
  Task<FileEvent> next() override {
    if (!script_.events.empty()) {
      FileEvent event = std::move(script_.events.front());
      script_.events.pop_front();
      co_return std::move(event);
    }
    if (script_.ends) {
      co_return fail(Code::kUnavailable, "the sandbox is gone", "guest_lost");
    }
    Event never;
    CO_TRY_DO(co_await never.wait());
    co_return FileEvent{};
  }

 private:
  Script script_;
};

Script some_events(std::size_t count) {
  Script script;
  for (std::size_t i = 0; i < count; ++i) {
    script.events.push_back({FileEventType::kWrite, concat("/d/", i)});
  }
  return script;
}

// Runs `steps` beside the watches' own task.
void beside_watches(std::function<Task<>(PolledWatches&)> steps) {
  struct Runner {
    static Task<> run(std::function<Task<>(PolledWatches&)>& steps) {
      PolledWatches watches;
      Scope scope{co_await current_context()};
      scope.spawn("watches", watches.run());
      CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{1}));
      auto done = co_await steps(watches);
      (void)co_await scope.cancel_and_join();
      co_return std::move(done);
    }
  };
  io::Reactor reactor;
  const auto done = reactor.run_until_complete(Runner::run(steps));
  EXPECT_TRUE(done) << done.error().message;
}

Task<> settle() {
  co_return co_await sleep_for(std::chrono::milliseconds{5});
}

struct Steps {
  static Task<> take_and_remove(PolledWatches& watches) {
    CO_TRY(const auto id, watches.add({.sandbox = kMine, .root = "/d", .describe = true},
                                      std::make_unique<ScriptedWatch>(some_events(3))));
    CO_TRY_DO(co_await settle());
    EXPECT_EQ(watches.take({"team", "other"}, id).error().code, Code::kNotFound);
    EXPECT_EQ(watches.take({"other", "mine"}, id).error().code, Code::kNotFound);
    CO_TRY(const auto changes, watches.take(kMine, id));
    EXPECT_EQ(changes.events.size(), 3U);
    EXPECT_EQ(changes.about.root, "/d");
    EXPECT_TRUE(changes.about.describe);
    CO_TRY(const auto nothing, watches.take(kMine, id));
    EXPECT_TRUE(nothing.events.empty());
    EXPECT_EQ(watches.remove({"other", "mine"}, id).error().code, Code::kNotFound);
    EXPECT_TRUE(watches.remove(kMine, id));
    EXPECT_EQ(watches.take(kMine, id).error().code, Code::kNotFound);
    co_return ok();
  }

  static Task<> describe_many(PolledWatches& watches) {
    CO_TRY(const auto id,
           watches.add({.sandbox = kMine, .root = "/d", .describe = true},
                       std::make_unique<ScriptedWatch>(some_events(kMaxDescribedChanges + 2))));
    CO_TRY_DO(co_await settle());
    CO_TRY(const auto first, watches.take(kMine, id));
    EXPECT_EQ(first.events.size(), kMaxDescribedChanges);
    CO_TRY(const auto second, watches.take(kMine, id));
    EXPECT_EQ(second.events.size(), 2U);
    EXPECT_EQ(second.events[0].path, concat("/d/", kMaxDescribedChanges));
    CO_TRY(const auto third, watches.take(kMine, id));
    EXPECT_TRUE(third.events.empty());
    co_return ok();
  }

  static Task<> miss_some(PolledWatches& watches) {
    for (Script script :
         {some_events(kMaxPolledChanges + 1), Script{{{FileEventType::kOverflow, "/d"}}}}) {
      CO_TRY(const auto id, watches.add({.sandbox = kMine, .root = "/d"},
                                        std::make_unique<ScriptedWatch>(std::move(script))));
      CO_TRY_DO(co_await settle());
      EXPECT_EQ(watches.take(kMine, id).error().code, Code::kDataLoss);
      EXPECT_EQ(watches.take(kMine, id).error().code, Code::kNotFound);
    }
    co_return ok();
  }

  static Task<> end_with_the_sandbox(PolledWatches& watches) {
    CO_TRY(const auto id, watches.add({.sandbox = kMine, .root = "/d"},
                                      std::make_unique<ScriptedWatch>(Script{.ends = true})));
    CO_TRY_DO(co_await settle());
    EXPECT_EQ(watches.take(kMine, id).error().code, Code::kNotFound);
    co_return ok();
  }

  static Task<> add_too_many(PolledWatches& watches) {
    for (std::size_t i = 0; i < kMaxPolledWatchesPerSandbox; ++i) {
      CO_TRY_DO(watches.add({.sandbox = kMine}, std::make_unique<ScriptedWatch>(Script{})));
    }
    EXPECT_EQ(
        watches.add({.sandbox = kMine}, std::make_unique<ScriptedWatch>(Script{})).error().code,
        Code::kResourceExhausted);
    EXPECT_TRUE(
        watches.add({.sandbox = {"team", "other"}}, std::make_unique<ScriptedWatch>(Script{})));
    co_return ok();
  }
};

TEST(PolledWatches, KeepsChangesForWhoeverMayAsk) {
  beside_watches(Steps::take_and_remove);
}
TEST(PolledWatches, GivesAsMuchAsCanBeDescribedAtOnce) {
  beside_watches(Steps::describe_many);
}
TEST(PolledWatches, SaysThatItMissedSome) {
  beside_watches(Steps::miss_some);
}
TEST(PolledWatches, EndsWithTheSandbox) {
  beside_watches(Steps::end_with_the_sandbox);
}
TEST(PolledWatches, IsBounded) {
  beside_watches(Steps::add_too_many);
}

}  // namespace
}  // namespace atl::control
