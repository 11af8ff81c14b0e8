// Calls from a real loop to the thread of the store: order, groups, failures, what waits for what.
#include "control/store_access.h"

#include <gtest/gtest.h>

#include <semaphore>

#include "base/strings.h"
#include "control/fixture.h"
#include "io/reactor.h"

namespace atl::control {
namespace {

class StoreThreadTest : public testing::Test {
 protected:
  Task<> call_later(std::string id, store::Durability durability, std::vector<std::string>& done,
                    Result<>& result) {
    result = co_await access_.run([&](store::Store& store) {
      store::NewSandbox made;
      made.sandbox.id = id;
      made.sandbox.template_name = "default";
      made.event = {.kind = "running", .subject = id, .at = 5};
      return store.insert_sandboxes({made}, std::nullopt, durability);
    });
    done.push_back(id);
    co_return ok();
  }

  // Keeps the thread busy until told, so that what comes meanwhile waits together.
  Task<> block(std::binary_semaphore& begun, std::binary_semaphore& released) {
    co_return co_await access_.run([&](store::Store&) -> Result<> {
      begun.release();
      released.acquire();
      return {};
    });
  }

  struct Wanted {
    std::string id;
    store::Durability durability = store::Durability::kQuick;
  };
  // The calls wait together; gives the order in which they were answered.
  Task<std::vector<std::string>> run_together(std::vector<Wanted> wanted,
                                              std::vector<Result<>>& results) {
    std::binary_semaphore begun{0};
    std::binary_semaphore released{0};
    std::vector<std::string> done;
    results.resize(wanted.size());
    Scope scope{co_await current_context()};
    scope.spawn("block", block(begun, released));
    begun.acquire();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      scope.spawn("call", call_later(wanted[i].id, wanted[i].durability, done, results[i]));
    }
    released.release();
    (void)co_await scope.join();
    co_return std::move(done);
  }

  TemporaryDirectory directory_;
  io::Reactor reactor_;
  std::unique_ptr<store::Store> store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
  StoreThread thread_{*store_, 200};
  StoreAccess access_{*store_, &thread_};
};

TEST_F(StoreThreadTest, WhatWaitsIsDoneTogether) {
  std::vector<Wanted> wanted;
  for (int i = 0; i < 50; ++i) {
    wanted.push_back({.id = concat("rs-", i)});
  }
  std::vector<Result<>> results;
  const auto done = reactor_.run_until_complete(run_together(wanted, results));
  ASSERT_EQ(50U, done->size());
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(results[static_cast<std::size_t>(i)]);
    EXPECT_EQ(concat("rs-", i), (*done)[static_cast<std::size_t>(i)]);  // in their order
  }
  EXPECT_EQ(51U, thread_.counts().calls);
  EXPECT_EQ(2U, thread_.counts().groups);
  EXPECT_EQ(50U, store_->list_sandboxes()->size());
}

TEST_F(StoreThreadTest, OneFailureIsNobodyElses) {
  std::vector<Result<>> results;
  ASSERT_TRUE(reactor_.run_until_complete(
      run_together({{.id = "rs-a"}, {.id = "rs-a"}, {.id = "rs-b"}}, results)));
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(Code::kAlreadyExists, results[1].error().code);
  EXPECT_TRUE(results[2]);
  EXPECT_EQ(2U, store_->list_sandboxes()->size());
}

TEST_F(StoreThreadTest, OnlyWhatIsDurableWaitsForTheDisk) {
  std::vector<Result<>> results;
  const auto done = reactor_.run_until_complete(
      run_together({{.id = "rs-a", .durability = store::Durability::kDurable},
                    {.id = "rs-b"},
                    {.id = "rs-c", .durability = store::Durability::kDurable}},
                   results));
  EXPECT_EQ((std::vector<std::string>{"rs-b", "rs-a", "rs-c"}), *done);
  EXPECT_TRUE(results[0] && results[1] && results[2]);
}

TEST_F(StoreThreadTest, AFullQueueIsRefused) {
  std::vector<Wanted> wanted;
  for (int i = 0; i < 201; ++i) {
    wanted.push_back({.id = concat("rs-", i)});
  }
  std::vector<Result<>> results;
  ASSERT_TRUE(reactor_.run_until_complete(run_together(wanted, results)));
  EXPECT_TRUE(results[199]);
  ASSERT_FALSE(results[200]);
  EXPECT_EQ(Code::kResourceExhausted, results[200].error().code);
}

}  // namespace
}  // namespace atl::control
