// The write-ahead log: who may remove it, who copies it, and what it means that it was not synced.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fault_point.h"
#include "base/fd.h"
#include "base/strings.h"
#include "store/room.h"
#include "store/sqlite/log_copier.h"

namespace atl::store {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-log-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    store_.reset();
    fault::plan = nullptr;
    std::filesystem::remove_all(directory_);
  }
  void open() {
    store_.reset();
    auto opened = open_sqlite_store(path());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  Result<> insert(const std::string& id, Durability durability = Durability::kQuick) {
    NewSandbox made;
    made.sandbox.id = id;
    made.sandbox.template_name = "default";
    made.event = {.kind = "running", .subject = id, .at = 5};
    return store_->insert_sandboxes({made}, std::nullopt, durability);
  }
  std::string path() const { return directory_ + "/atoll.db"; }
  std::string log_path() const { return path() + "-wal"; }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

// A person with the sqlite3 tool: reads once and goes. 0: everything went well.
int look_in(const std::string& path) {
  sqlite3* handle = nullptr;
  const bool read =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK &&
      sqlite3_exec(handle, "SELECT count(*) FROM sandboxes", nullptr, nullptr, nullptr) ==
          SQLITE_OK;
  return sqlite3_close(handle) == SQLITE_OK && read ? 0 : 1;
}

// The last one who closes a database copies its log and removes it. Whoever is not the last sees
// that by our locks, so none of ours may ever be dropped.
TEST_F(LogTest, SomebodyElseWhoCloses) {
  // Made before the store is opened: SQLite must not be carried over a fork.
  int ends[2];
  ASSERT_EQ(0, ::pipe2(ends, O_CLOEXEC));
  Fd read_end{ends[0]};
  Fd write_end{ends[1]};
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    char go = 0;
    ::_exit(::read(read_end.get(), &go, 1) == 1 ? look_in(path()) : 2);
  }
  open();
  ASSERT_TRUE(insert("rs-before"));
  ASSERT_TRUE(insert("rs-synced", Durability::kDurable));
  ASSERT_EQ(1, ::write(write_end.get(), "g", 1));
  int status = 0;
  ASSERT_EQ(pid, ::waitpid(pid, &status, 0));
  ASSERT_EQ(0, status);
  EXPECT_TRUE(std::filesystem::exists(log_path()));
  EXPECT_TRUE(std::filesystem::exists(path() + "-shm"));
  EXPECT_TRUE(insert("rs-after"));
  EXPECT_TRUE(insert("rs-after-synced", Durability::kDurable));
  open();
  EXPECT_EQ(4U, store_->list_sandboxes()->size());
}

TEST_F(LogTest, ALogThatWasRemovedIsNoPlaceForADurableChange) {
  open();
  ASSERT_TRUE(insert("rs-a", Durability::kDurable));
  std::filesystem::remove(log_path());
  const auto inserted = insert("rs-b", Durability::kDurable);
  ASSERT_FALSE(inserted);
  EXPECT_EQ("sync_failed", inserted.error().reason);
}

// The next fdatasync may succeed although the pages of the first are lost.
TEST_F(LogTest, AFailedSyncIsNotForgotten) {
  const auto points = fault::points();
  const auto point = std::ranges::find(points, std::string_view{"store.log.sync"},
                                       [](const fault::Point& each) { return each.name; });
  if (point == points.end()) {
    GTEST_SKIP() << "built without fault points";
  }
  open();
  ASSERT_TRUE(store_->sync());
  fault::Plan plan{};
  plan.orders[0] = {.point = static_cast<std::uint32_t>(point - points.begin()) + 1,
                    .skip = 0,
                    .times = 1,
                    .action = static_cast<std::uint32_t>(fault::Action::kFail),
                    .error_number = EIO,
                    .acted = 0};
  fault::plan = &plan;
  EXPECT_FALSE(insert("rs-a", Durability::kDurable));
  EXPECT_EQ(1U, plan.orders[0].acted);
  const auto again = store_->sync();
  ASSERT_FALSE(again);
  EXPECT_EQ(Code::kDataLoss, again.error().code);
  EXPECT_EQ("sync_failed", again.error().reason);
  EXPECT_FALSE(insert("rs-b", Durability::kDurable));
  std::vector<StorePart> parts{{.run = [&] { (void)insert("rs-c", Durability::kDurable); }}};
  EXPECT_TRUE(store_->together(parts));
  EXPECT_TRUE(parts[0].durable);
  EXPECT_FALSE(store_->sync());
  // What need not survive a power cut goes on, and a new process begins anew.
  EXPECT_TRUE(insert("rs-quick"));
  open();
  EXPECT_TRUE(insert("rs-d", Durability::kDurable));
}

// Waits until all of the log is in the database, in another process: to close a descriptor of the
// -shm file here would drop the locks on it. The offsets are those of SQLite's file format.
bool wait_until_copied(const std::string& path) {
  constexpr off_t kLastFrame = 16;
  constexpr off_t kCopiedFrames = 96;
  const std::string index = path + "-shm";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    const int fd = ::open(index.c_str(), O_RDONLY | O_CLOEXEC);
    std::uint32_t last = 0;
    std::uint32_t copied = 0;
    do {
      ::usleep(1000);
      if (::pread(fd, &last, sizeof last, kLastFrame) != sizeof last ||
          ::pread(fd, &copied, sizeof copied, kCopiedFrames) != sizeof copied) {
        ::_exit(1);
      }
    } while (last != copied);
    ::_exit(0);
  }
  int status = 1;
  return ::waitpid(pid, &status, 0) == pid && status == 0;
}

TEST_F(LogTest, ALongLogIsCopiedByAnotherAndBegunAnew) {
  constexpr std::int64_t kFrameBytes = 4096 + 24;
  constexpr std::int64_t kRecordPages = 1000;
  open();
  int records = 0;
  const auto write_pages = [&](std::int64_t pages) {
    for (; pages > 0; pages -= kRecordPages) {
      const Record record{.kind = "test",
                          .id = concat("record-", ++records),
                          .body = std::string(kRecordPages * 4096, 'x')};
      std::vector<StorePart> parts{{.run = [&] { EXPECT_TRUE(store_->put_record(record, 0)); }}};
      EXPECT_TRUE(store_->together(parts));
    }
  };
  const auto log_pages = [&] {
    return static_cast<std::int64_t>(std::filesystem::file_size(log_path())) / kFrameBytes;
  };
  write_pages(kCopyLogPages - 2 * kRecordPages);
  ASSERT_GE(log_pages(), kCopyLogPages - 2 * kRecordPages);
  // Nobody has copied anything yet; what makes it too long is copied without a further commit.
  EXPECT_LT(std::filesystem::file_size(path()), 1U << 20);
  while (log_pages() < kCopyLogPages) {
    write_pages(1);
  }
  ASSERT_TRUE(wait_until_copied(path()));
  EXPECT_GT(std::filesystem::file_size(path()), std::uintmax_t{kCopyLogPages} * 4000);
  const std::int64_t longest = log_pages();
  write_pages(kCopyLogPages / 2);
  EXPECT_EQ(longest, log_pages()) << "it begins anew, in its old place";
  open();
  EXPECT_EQ(static_cast<std::size_t>(records), store_->list_records("test")->size());
}

}  // namespace
}  // namespace atl::store
