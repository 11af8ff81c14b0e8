// A cell's first process: how it begins, and every way in which it does not.
#include "runtime/namespaces/cell_clone.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/namespaces/cell_report.h"
#include "runtime/namespaces/cell_spawn.h"
#include "runtime/namespaces/cgroup_tree.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/landlock.h"
#include "runtime/namespaces/process.h"
#include "runtime/namespaces/seccomp_policy.h"

namespace atl::runtime::namespaces {
namespace {

namespace fs = std::filesystem;
using Memory = CellClone::Memory;

constexpr int kLongMs = 30'000;

std::size_t count_in(const char* directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{directory}, fs::directory_iterator{}));
}

// Whether it comes true before somebody who waits loses patience.
bool eventually(const auto& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{kLongMs};
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

// Also those that send no signal when they end. Dead ones that were not reaped count.
bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

struct Channel {
  Channel() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ours = Fd{pair[0]};
    theirs = Fd{pair[1]};
  }
  Fd ours;
  Fd theirs;
};

// One that gets as far as waiting for its mounts.
std::shared_ptr<PlannedCell> make_cell(int channel_fd) {
  auto cell = std::make_shared<PlannedCell>();
  cell->spec.id = "one";
  cell->spec.uid_base = 0x20000000;
  cell->plan.channel_fd = channel_fd;
  cell->plan.stage_dir = "/";
  cell->plan.hostname = "box";
  cell->plan.open_files = 1024;
  cell->plan.core_bytes = 1;
  return cell;
}

class CellCloneTest : public ::testing::TestWithParam<Memory> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    ASSERT_FALSE(has_children());
    descriptors_ = count_in("/proc/self/fd");
    threads_ = count_in("/proc/self/task");
  }
  void TearDown() override {
    if (::geteuid() == 0) {
      EXPECT_FALSE(has_children());
      EXPECT_EQ(count_in("/proc/self/fd"), descriptors_);
      // A thread that was waited for may be in the list for a moment more.
      EXPECT_TRUE(eventually([&] { return count_in("/proc/self/task") == threads_; }));
    }
  }

 private:
  std::size_t descriptors_ = 0;
  std::size_t threads_ = 0;
};

TEST_P(CellCloneTest, AChildBeginsAndEndsWithItsOwner) {
  Channel channel;
  CellClone clone{make_cell(channel.theirs.get()), std::move(channel.theirs), GetParam()};
  const auto begun = clone.begin(channel.ours.get(), kLongMs);
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_FALSE(is_dead(begun->child.pidfd()));
  int type = 0;
  socklen_t size = sizeof type;
  EXPECT_EQ(::getsockopt(begun->listener.get(), SOL_SOCKET, SO_TYPE, &type, &size), 0);
  EXPECT_EQ(type, SOCK_STREAM);
}

TEST_P(CellCloneTest, AChildThatDiesBeforeItsFirstWordIsAnError) {
  Channel channel;
  CellClone clone{make_cell(-1), std::move(channel.theirs), GetParam()};  // nowhere to say it
  const auto begun = clone.begin(channel.ours.get(), kLongMs);
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(begun.error().message.contains("killed before it began")) << begun.error().message;
}

// Wherever its child is by then: not even made, or waiting for what it will not get.
TEST_P(CellCloneTest, OneThatIsOutOfTimeEndsAndLeavesNothing) {
  int out_of_time = 0;
  for (int i = 0; i < 50; ++i) {
    Channel channel;
    auto cell = make_cell(channel.theirs.get());
    const std::weak_ptr<PlannedCell> used = cell;
    auto clone =
        std::make_unique<CellClone>(std::move(cell), std::move(channel.theirs), GetParam());
    if (const auto begun = clone->begin(channel.ours.get(), 0); !begun) {  // else it was quick
      EXPECT_EQ(begun.error().code, Code::kDeadlineExceeded) << begun.error().message;
      ++out_of_time;
    }
    clone.reset();
    ASSERT_TRUE(used.expired());
  }
  EXPECT_GT(out_of_time, 0);
}

// The kernel has told the number of a pidfd by then, and given the number back.
TEST_P(CellCloneTest, ACloneThatFailsLateEndsNobodyElse) {
  const std::string instance = concat("c", ::getpid());
  auto tree = CgroupTree::open(instance);
  ASSERT_TRUE(tree) << tree.error().message;
  auto places = tree->create("one", {});
  ASSERT_TRUE(places) << places.error().message;
  ASSERT_TRUE(tree->remove("one"));
  ASSERT_TRUE(tree->remove_instance());
  if (!places->version2) {
    GTEST_SKIP() << "no cgroups of version 2";
  }
  const int victim = ::fork();
  if (victim == 0) {
    ::pause();
    ::_exit(0);
  }
  const Fd victim_fd{pidfd_open_call(victim)};
  ASSERT_TRUE(victim_fd);
  {
    const std::jthread taker{[&](const std::stop_token& stop) {  // of every number that gets free
      while (!stop.stop_requested()) {
        const Fd taken{::fcntl(victim_fd.get(), F_DUPFD_CLOEXEC, 0)};
      }
    }};
    for (int i = 0; i < 100; ++i) {
      Channel channel;
      auto cell = make_cell(channel.theirs.get());
      cell->places.version2 = Fd{::fcntl(places->version2.get(), F_DUPFD_CLOEXEC, 0)};
      CellClone clone{std::move(cell), std::move(channel.theirs), GetParam()};
      const auto begun = clone.begin(channel.ours.get(), kLongMs);
      ASSERT_FALSE(begun);
      EXPECT_TRUE(begun.error().message.contains("making the cell's namespaces"))
          << begun.error().message;
    }
  }
  EXPECT_FALSE(is_dead(victim_fd.get()));
  EXPECT_TRUE(kill_process(victim_fd.get()));
  EXPECT_TRUE(wait_until_dead(victim_fd.get()));
}

INSTANTIATE_TEST_SUITE_P(EachWay, CellCloneTest, ::testing::Values(Memory::kLent, Memory::kCopied),
                         [](const auto& info) {
                           return info.param == Memory::kLent ? "Lent" : "Copied";
                         });

#if defined(__x86_64__)
// Takes as long as the clone's patience.
TEST_F(CellCloneTest, WhatAStuckChildBorrowedStaysAndNobodyWaitsForIt) {
  Channel channel;
  auto cell = make_cell(channel.theirs.get());
  const std::weak_ptr<PlannedCell> borrowed = cell;
  Fd pidfd;
  {
    CellClone clone{std::move(cell), std::move(channel.theirs)};
    auto begun = clone.begin(channel.ours.get(), kLongMs);
    ASSERT_TRUE(begun) << begun.error().message;
    pidfd = begun->child.keep();  // as if no signal could reach it
  }
  EXPECT_FALSE(is_dead(pidfd.get()));
  EXPECT_FALSE(borrowed.expired());
  EXPECT_TRUE(kill_process(pidfd.get()));
  EXPECT_TRUE(wait_until_dead(pidfd.get()));
  EXPECT_TRUE(eventually([&] { return borrowed.expired(); }));
}
#endif

TEST(CellReportTest, ANodeWithoutDescriptorsSaysSo) {
  Channel channel;
  const Fd listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  ASSERT_EQ(send_own_descriptors(channel.theirs.get(), listener.get()), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto got = wait_for_own_descriptors(channel.ours.get(), -1, kLongMs);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().message.contains("too many open files")) << got.error().message;
}

class NodeTest : public runtime::testing::CellFixture {
 protected:
  // Ids, signals and capabilities of every thread, and where the process stands.
  static std::string settings() {
    std::string all = fs::current_path().string() + "\n";
    for (const auto& task : fs::directory_iterator{"/proc/self/task"}) {
      const auto status = read_file(task.path().string() + "/status").value_or("");
      for (const std::string_view line : split(status, '\n')) {
        for (const char* name : {"Pid:", "Uid:", "Gid:", "SigBlk:", "SigIgn:", "SigCgt:", "CapEff:",
                                 "Seccomp:", "NoNewPrivs:", "Umask:"}) {
          all += line.starts_with(name) ? concat(line, "\n") : "";
        }
      }
    }
    return all;
  }
};

TEST_F(NodeTest, IsAsBeforeAfterManyCells) {
  const auto first = create("first");
  ASSERT_TRUE(first) << first.error().message;
  const std::string before = settings();
  const std::size_t descriptors = count_in("/proc/self/fd");
  for (int i = 0; i < 20; ++i) {
    const auto cell = create(concat("cell-", i));
    ASSERT_TRUE(cell) << cell.error().message;
    destroy(cell->record);
  }
  EXPECT_TRUE(eventually([&] { return settings() == before; })) << settings() << before;
  EXPECT_EQ(count_in("/proc/self/fd"), descriptors);
}

// As on a machine for which lending is not written.
TEST_F(NodeTest, ACellWhoseChildHasACopyOfTheMemoryIsLikeAnyOther) {
  const std::string guests = directory() + "/guests";
  ASSERT_TRUE(fs::create_directory(guests));
  auto blueprint = std::make_shared<CellBlueprint>();
  blueprint->lends_memory = false;
  blueprint->stage_dir = options().stage_dir;
  blueprint->landlock_abi = landlock_abi();
  auto filter = make_seccomp_filter();
  ASSERT_TRUE(filter) << filter.error().message;
  blueprint->seccomp_filter = *std::move(filter);
  auto images = GuestImages::open(guests, options().guest_binary);
  ASSERT_TRUE(images) << images.error().message;
  blueprint->guests = *std::move(images);
  const auto cell = spawn_cell(blueprint, {}, make_spec("one"));
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_TRUE(ask("one", "cat /proc/sys/kernel/hostname").starts_with("box-one"));
  EXPECT_TRUE(ask("one", "cat /proc/1/status").contains("Seccomp:\t2"));
  EXPECT_TRUE(kill_process(cell->pidfd.get()));
  EXPECT_TRUE(wait_until_dead(cell->pidfd.get()));
  EXPECT_TRUE(blueprint->guests->close());
}

}  // namespace
}  // namespace atl::runtime::namespaces
