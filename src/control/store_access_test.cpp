// Calls from a real loop to the thread of the store: order, groups, failures, what waits for what.
#include "control/store_access.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <semaphore>

#include "base/strings.h"
#include "control/fixture.h"
#include "io/reactor.h"

namespace atl::control {
namespace {

constexpr std::string_view kHuge = "rs-huge";

// No file of this process grows beyond that: then a write fails, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    CHECK(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    (void)::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_ = SIG_DFL;
};

class StoreThreadTest : public testing::Test {
 protected:
  Task<> call_later(std::string id, store::Durability durability, std::vector<std::string>& done,
                    Result<>& result) {
    result = co_await access_.run([&](store::Store& store) {
      store::NewSandbox made;
      made.sandbox.id = id;
      made.sandbox.template_name = "default";
      made.event = {.kind = "running", .subject = id, .at = 5};
      if (id == kHuge) {
        made.records.push_back({.kind = "test", .id = id, .body = std::string(8U << 20, 'x')});
      }
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

// SQLite undoes the whole group when it finds no room for one part of it.
TEST_F(StoreThreadTest, WhatFindsNoRoomIsAloneWithIt) {
  const auto log = directory_.path() + "/atoll.db-wal";
  std::vector<Result<>> results;
  std::optional<Result<std::vector<std::string>>> done;
  {
    const FileSizeLimit limit{std::filesystem::file_size(log) + (2U << 20)};
    done = reactor_.run_until_complete(
        run_together({{.id = "rs-a"},
                      {.id = "rs-b", .durability = store::Durability::kDurable},
                      {.id = std::string{kHuge}},
                      {.id = "rs-c"},
                      {.id = "rs-b"}},
                     results));
  }
  ASSERT_EQ(5U, (*done)->size());
  EXPECT_TRUE(results[0]) << results[0].error().message;
  EXPECT_TRUE(results[1]) << results[1].error().message;
  EXPECT_FALSE(results[2]);
  EXPECT_TRUE(results[3]) << results[3].error().message;
  ASSERT_FALSE(results[4]);
  EXPECT_EQ(Code::kAlreadyExists, results[4].error().code);
  EXPECT_EQ(3U, store_->list_sandboxes()->size());
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
