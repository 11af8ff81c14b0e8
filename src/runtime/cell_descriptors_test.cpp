// What a cell has of the node's descriptors (nothing), and the node of a cell's file system
// (nothing for long).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mount.h>

#include <chrono>
#include <climits>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/long_lived_fd.h"
#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/namespaces/remains.h"

namespace atl::runtime {
namespace {

namespace fs = std::filesystem;

std::size_t count_entries(const std::string& path) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{path}, fs::directory_iterator{}));
}

// How long a test waits for what must happen, before it fails.
constexpr std::chrono::seconds kPatience{60};

using CellDescriptorsTest = testing::CellFixture;

TEST_F(CellDescriptorsTest, ACellThatEndsWithItsDiskIsGoneAndLaterItsFileSystemToo) {
  const std::size_t before = count_entries("/proc/self/fd");
  const CellSpec spec = make_spec("one");
  const auto cell = create(spec);
  ASSERT_TRUE(cell) << cell.error().message;
  const auto ended = runtime().destroy_with_disk(cell->record);
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_FALSE(runtime().adopt(cell->record));
  EXPECT_EQ(runtime().list().value_or(std::vector<std::string>{"?"}), std::vector<std::string>{});
  EXPECT_GT(fs::remove_all(spec.upper_dir), 0U) << "its disk is nobody's";
  EXPECT_TRUE(runtime().destroy_with_disk(cell->record)) << "once more";
  const std::size_t expected = before + 1;  // the pidfd of `cell`
  const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
  while (count_entries("/proc/self/fd") > expected &&
         std::chrono::steady_clock::now() < give_up_at) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  EXPECT_LE(count_entries("/proc/self/fd"), expected)
      << "the mounts of a cell that is gone are kept";
}

// So that its last process need not take them apart, and no create copies the descriptor.
TEST_F(CellDescriptorsTest, TheMountsOfACellAreHeldUnderAHighNumber) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  const std::string process = concat("/proc/", cell->record.pid);
  const fs::path mounts = fs::read_symlink(process + "/ns/mnt");
  const Fd held = namespaces::hold_mounts(cell->record.pid);
  ASSERT_TRUE(held);
  EXPECT_GE(held.get(), kFirstLongLivedFd);
  const auto ended = runtime().destroy_with_disk(cell->record);
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_FALSE(fs::exists(process));
  EXPECT_EQ(fs::read_symlink(concat("/proc/self/fd/", held.get())), mounts);
}

// A file system of the host that its owner takes away is gone, whatever cells were made meanwhile:
// each began with a copy of all mounts.
TEST_F(CellDescriptorsTest, ACellHoldsNoMountOfTheHost) {
  const std::string place = directory() + "/held";
  fs::create_directory(place);
  ASSERT_EQ(::mount("held", place.c_str(), "tmpfs", 0, nullptr), 0);
  const Fd watch{::inotify_init1(IN_CLOEXEC)};
  ASSERT_GE(::inotify_add_watch(watch.get(), place.c_str(), IN_CREATE), 0);
  const auto cell = create("one");
  const int unmounted = ::umount(place.c_str());
  ASSERT_TRUE(cell) << cell.error().message;
  ASSERT_EQ(unmounted, 0);
  pollfd waiting{watch.get(), POLLIN, 0};
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
  ASSERT_EQ(::poll(&waiting, 1, static_cast<int>(patience.count())), 1) << "the cell holds it";
  alignas(inotify_event) char text[sizeof(inotify_event) + NAME_MAX + 1];
  ASSERT_GE(::read(watch.get(), text, sizeof text), static_cast<ssize_t>(sizeof(inotify_event)));
  EXPECT_NE(reinterpret_cast<const inotify_event*>(text)->mask & IN_UNMOUNT, 0U);
}

// As many as the node has with a thousand cells.
TEST_F(CellDescriptorsTest, DescriptorsOfTheNodeStayItsOwn) {
  std::vector<Fd> kept;
  for (int i = 0; i < 2000; ++i) {
    kept.emplace_back(::fcntl(STDERR_FILENO, F_DUPFD, 1024));
    ASSERT_TRUE(kept.back());
  }
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "ping"), "pong 1");
  for (const Fd& fd : kept) {
    ASSERT_GE(::fcntl(fd.get(), F_GETFD), 0) << "the child closed one of the node's";
  }
  EXPECT_LT(count_entries(concat("/proc/", cell->record.pid, "/fd")), 16U);
}

}  // namespace
}  // namespace atl::runtime
