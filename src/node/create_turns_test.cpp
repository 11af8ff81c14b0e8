#include "node/create_turns.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "node/limits.h"

namespace atl::node {
namespace {

// How long a test waits for what must happen, before it fails.
constexpr std::chrono::seconds kPatience{60};

// Threads that want a turn each; what they did is in the order in which they were called.
class CreateTurnsTest : public ::testing::Test {
 protected:
  // Returns when it waits or has its turn.
  void want(const std::string& name, bool in_background) {
    const std::size_t before = settled();
    threads_.emplace_back([this, name, in_background] {
      const CreateTurns::Turn turn{turns_, in_background};
      std::unique_lock lock{mutex_};
      called_.push_back(name);
      changed_.notify_all();
      changed_.wait(lock, [&] { return ended_.contains(name) || over_; });
    });
    std::unique_lock lock{mutex_};
    // One that waits says so to nobody.
    const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
    while (settled_locked() == before && std::chrono::steady_clock::now() < give_up_at) {
      changed_.wait_for(lock, std::chrono::milliseconds{1});
    }
    EXPECT_NE(settled_locked(), before) << name << " neither waits nor has a turn";
  }
  void end(const std::string& name) {
    const std::lock_guard guard{mutex_};
    ended_.insert(name);
    changed_.notify_all();
  }
  std::vector<std::string> wait_until_called(std::size_t count) {
    std::unique_lock lock{mutex_};
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return called_.size() >= count; }))
        << "only " << called_.size() << " of " << count << " were called";
    return called_;
  }
  void TearDown() override {
    {
      const std::lock_guard guard{mutex_};
      over_ = true;
      changed_.notify_all();
    }
    threads_.clear();
  }
  std::size_t settled() {
    const std::lock_guard guard{mutex_};
    return settled_locked();
  }
  std::size_t settled_locked() const { return called_.size() + turns_.waiting(); }

  CreateTurns turns_{2};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> called_;
  std::set<std::string> ended_;
  bool over_ = false;
  std::vector<std::jthread> threads_;
};

using Names = std::vector<std::string>;

TEST_F(CreateTurnsTest, FirstComeFirstServed) {
  for (const char* name : {"a", "b", "c", "d"}) {
    want(name, false);
  }
  EXPECT_EQ(wait_until_called(2), (Names{"a", "b"}));
  EXPECT_EQ(turns_.waiting(), 2U);
  end("b");
  EXPECT_EQ(wait_until_called(3), (Names{"a", "b", "c"}));
  end("a");
  EXPECT_EQ(wait_until_called(4), (Names{"a", "b", "c", "d"}));
}

TEST_F(CreateTurnsTest, WhatNobodyWaitsForLeavesAPlaceFree) {
  want("ahead", true);
  want("more", true);
  EXPECT_EQ(wait_until_called(1), Names{"ahead"});
  EXPECT_EQ(turns_.waiting(), 1U) << "though there is a place";
  want("asked", false);
  EXPECT_EQ(wait_until_called(2), (Names{"ahead", "asked"}));
}

TEST_F(CreateTurnsTest, WhatNobodyWaitsForLetsOthersPass) {
  want("a", false);
  want("b", false);
  want("ahead", true);
  want("c", false);
  end("a");
  EXPECT_EQ(wait_until_called(3), (Names{"a", "b", "c"}));
  end("b");
  EXPECT_EQ(wait_until_called(4), (Names{"a", "b", "c", "ahead"}));
}

TEST_F(CreateTurnsTest, ItIsNotPassedForEver) {
  want("a", false);
  want("b", false);
  want("ahead", true);
  Names expected{"a", "b"};
  for (std::size_t i = 0; i < kMostPassing + 2; ++i) {
    want(std::to_string(i), false);
  }
  std::string ends = "a";
  for (std::size_t i = 0; i < kMostPassing; ++i) {
    end(ends);
    ends = std::to_string(i);
    expected.push_back(ends);
    ASSERT_EQ(wait_until_called(expected.size()), expected);
  }
  end(ends);
  expected.push_back("ahead");
  EXPECT_EQ(wait_until_called(expected.size()), expected);
}

}  // namespace
}  // namespace atl::node
