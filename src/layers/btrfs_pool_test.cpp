// What only the btrfs pool can do: limits, and surviving its own process.
#include <linux/btrfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/btrfs_ioctl.h"
#include "layers/loop_pool.h"
#include "layers/pool_fixture.h"

namespace atl::layers {
namespace {

constexpr std::uint64_t kMebibyte = 1U << 20;

class BtrfsPoolTest : public PoolFixture {
 protected:
  void SetUp() override {
    PoolFixture::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      open();
    }
  }

  // Writes until it fails or `bytes` are written; the errno it ended with, 0 for none.
  static int fill_file(const std::string& path, std::uint64_t bytes) {
    const Fd fd{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    if (!fd) {
      return errno;
    }
    const std::string block(kMebibyte, 'x');
    for (std::uint64_t written = 0; written < bytes; written += kMebibyte) {
      if (const auto wrote = ::write(fd.get(), block.data(), block.size()); wrote < 0) {
        return errno;
      }
    }
    return ::fsync(fd.get()) == 0 ? 0 : errno;
  }
};

TEST_F(BtrfsPoolTest, FullUpperHurtsNobodyElseAndRecovers) {
  const std::string full = *pool_->create_upper("full", 32 * kMebibyte) + "/upper";
  const std::string other = *pool_->create_upper("other", 32 * kMebibyte) + "/upper";
  EXPECT_EQ(fill_file(full + "/big", 64 * kMebibyte), EDQUOT);
  const auto usage = pool_->upper_usage("full");
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_EQ(usage->limit_bytes, 32 * kMebibyte);
  EXPECT_GT(usage->used_bytes, 24 * kMebibyte);
  EXPECT_LE(usage->used_bytes, 32 * kMebibyte);

  EXPECT_EQ(fill_file(other + "/fine", 16 * kMebibyte), 0);
  ASSERT_TRUE(pool_->create_upper("third", 32 * kMebibyte)) << "new uppers can be made";

  ASSERT_EQ(::unlink((full + "/big").c_str()), 0) << "a full upper can delete";
  EXPECT_EQ(fill_file(full + "/again", 16 * kMebibyte), 0) << "and use the space again";
}

TEST_F(BtrfsPoolTest, MetadataCountsAgainstTheLimit) {
  const std::string path = *pool_->create_upper("tiny", 2 * kMebibyte) + "/upper";
  int made = 0;
  int error_number = 0;
  for (; made < 100'000 && error_number == 0; ++made) {
    const Fd fd{::open(concat(path, "/", made).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    error_number = fd ? 0 : errno;
  }
  EXPECT_EQ(error_number, EDQUOT) << "after " << made << " files";
}

TEST_F(BtrfsPoolTest, LimitCanBeRaisedAndLifted) {
  const std::string path = *pool_->create_upper("sb", 8 * kMebibyte) + "/upper";
  EXPECT_EQ(fill_file(path + "/a", 16 * kMebibyte), EDQUOT);
  ASSERT_TRUE(pool_->set_upper_limit("sb", 64 * kMebibyte));
  EXPECT_EQ(pool_->upper_usage("sb")->limit_bytes, 64 * kMebibyte);
  EXPECT_EQ(fill_file(path + "/b", 16 * kMebibyte), 0);
  ASSERT_TRUE(pool_->set_upper_limit("sb", 0));
  EXPECT_EQ(pool_->upper_usage("sb")->limit_bytes, 0U);
  EXPECT_EQ(fill_file(path + "/c", 80 * kMebibyte), 0);
  EXPECT_EQ(pool_->set_upper_limit("none", 64 * kMebibyte).error().code, Code::kNotFound);
  EXPECT_EQ(pool_->set_upper_limit("sb", 1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(pool_->create_upper("small", 1).error().code, Code::kInvalidArgument);
}

TEST_F(BtrfsPoolTest, LimitSurvivesReopening) {
  const std::string path = *pool_->create_upper("sb", 8 * kMebibyte) + "/upper";
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_EQ(pool_->upper_usage("sb")->limit_bytes, 8 * kMebibyte);
  EXPECT_EQ(fill_file(path + "/a", 16 * kMebibyte), EDQUOT);
}

TEST_F(BtrfsPoolTest, LayersAreReadOnly) {
  ASSERT_TRUE(pool_->add_layer("base", [](const std::string& directory) -> Result<> {
    write_text(directory + "/file", "x");
    return {};
  }));
  EXPECT_EQ(::unlink((pool_->layer_path("base") + "/file").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(BtrfsPoolTest, WhatHasSubvolumesInItGoesToo) {
  const std::string upper = *pool_->create_upper("sb", 64 * kMebibyte) + "/upper";
  const auto make = [](const std::string& parent, const std::string& name) {
    const Fd fd{::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    ASSERT_TRUE(btrfs::create_subvolume(fd.get(), name, 0));
    write_text(concat(parent, "/", name, "/file"), "x");
  };
  for (const char* name : {"one", "two"}) {
    make(upper, name);
    std::filesystem::create_directory(concat(upper, "/", name, "/plain"));
    make(concat(upper, "/", name, "/plain"), "deeper");
    make(concat(upper, "/", name, "/plain/deeper"), "deepest");
  }
  ASSERT_TRUE(pool_->remove_upper("sb"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/pool/mnt/trash"));
}

TEST_F(BtrfsPoolTest, WhatCannotBeDestroyedKeepsNothingElseFromIt) {
  const std::string trash = directory_ + "/pool/mnt/trash";
  const auto set_immutable = [&](bool immutable) {
    const Fd fd{::open((trash + "/b/file").c_str(), O_RDONLY | O_CLOEXEC)};
    const int flags = immutable ? FS_IMMUTABLE_FL : 0;
    ASSERT_EQ(::ioctl(fd.get(), FS_IOC_SETFLAGS, &flags), 0);
  };
  for (const char* name : {"/a", "/b", "/c"}) {
    std::filesystem::create_directory(trash + name);
    write_text(trash + name + "/file", "x");
  }
  ASSERT_NO_FATAL_FAILURE(set_immutable(true));
  write_text(directory_ + "/pool/mnt/uppers/.new-no-volume", "x");
  const auto collected = pool_->collect();
  EXPECT_TRUE(collected) << collected.error().message;
  EXPECT_FALSE(std::filesystem::exists(trash + "/a"));
  EXPECT_TRUE(std::filesystem::exists(trash + "/b/file"));
  EXPECT_FALSE(std::filesystem::exists(trash + "/c"));
  EXPECT_TRUE(pool_->create_upper("sb", 8 * kMebibyte));
  ASSERT_NO_FATAL_FAILURE(set_immutable(false));
  ASSERT_TRUE(pool_->collect());
  EXPECT_TRUE(std::filesystem::is_empty(trash));
}

TEST_F(BtrfsPoolTest, QuotaGroupsDoNotPileUp) {
  const Fd root{::open((directory_ + "/pool/mnt").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const auto uuid = btrfs::file_system_uuid(root.get());
  ASSERT_TRUE(uuid);
  const auto count_groups = [&] {
    int groups = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator{concat("/sys/fs/btrfs/", *uuid, "/qgroups")}) {
      groups += entry.path().filename().string().starts_with("0_") ? 1 : 0;
    }
    return groups;
  };
  const int before = count_groups();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(pool_->create_upper(concat("sb", i), 8 * kMebibyte));
    ASSERT_TRUE(pool_->remove_upper(concat("sb", i)));
  }
  // The kernel frees deleted subvolumes in its own time; asking it to sync makes it begin.
  int groups = count_groups();
  for (int round = 0; round < 1000 && groups > before; ++round) {
    ASSERT_EQ(::ioctl(root.get(), BTRFS_IOC_SYNC, nullptr), 0);
    ::usleep(10'000);
    ASSERT_TRUE(pool_->collect());
    groups = count_groups();
  }
  EXPECT_LE(groups, before);
}

// Whether some of the file is only in memory; asking does not write it.
bool has_unwritten_data(const std::string& path) {
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  alignas(fiemap) char buffer[sizeof(fiemap) + 64 * sizeof(fiemap_extent)] = {};
  auto* map = reinterpret_cast<fiemap*>(buffer);
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_extent_count = 64;
  EXPECT_EQ(::ioctl(file.get(), FS_IOC_FIEMAP, map), 0);
  EXPECT_GT(map->fm_mapped_extents, 0U);
  for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
    if ((map->fm_extents[i].fe_flags & FIEMAP_EXTENT_DELALLOC) != 0) {
      return true;
    }
  }
  return false;
}

TEST_F(BtrfsPoolTest, SyncWaitsForNobodyElse) {
  const std::string mine = *pool_->create_upper("mine", 0) + "/upper/file";
  const std::string other = *pool_->create_upper("other", 0) + "/upper/file";
  write_text(mine, std::string(1U << 20, 'x'));
  write_text(other, std::string(8U << 20, 'y'));
  ASSERT_TRUE(has_unwritten_data(mine));
  ASSERT_TRUE(pool_->flush_upper("mine").has_value());
  EXPECT_TRUE(has_unwritten_data(mine)) << "so little is left to the sync";
  ASSERT_TRUE(pool_->sync_upper("mine").has_value());
  EXPECT_FALSE(has_unwritten_data(mine));
  EXPECT_TRUE(has_unwritten_data(other));
  ASSERT_TRUE(pool_->flush_upper("other").has_value());
  EXPECT_FALSE(has_unwritten_data(other));
  EXPECT_EQ(*pool_->list_uppers(), (std::vector<std::string>{"mine", "other"}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{directory_ + "/pool/mnt/uppers"}, {}),
            2);
}

TEST_F(BtrfsPoolTest, PoolImageIsNeverReplacedByAnEmptyPool) {
  ASSERT_TRUE(pool_->create_upper("precious", 0));
  ASSERT_TRUE(pool_->close());
  pool_.reset();
  const std::string image = directory_ + "/pool/pool.img";
  ASSERT_EQ(::truncate(image.c_str(), 0), 0);
  ASSERT_FALSE(open_pool(options())) << "a damaged pool is an error, not a new pool";
  EXPECT_TRUE(std::filesystem::exists(image));
  EXPECT_FALSE(is_mounted_below(directory_));
  EXPECT_EQ(loop_devices_of(directory_), 0);
}

TEST_F(BtrfsPoolTest, TooSmallAPoolIsRefused) {
  const auto small = open_pool({.directory = directory_ + "/small", .loop_bytes = 4096});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, Code::kInvalidArgument);
}

// On a host's own btrfs we change nothing: simple quotas would keep older kernels from mounting it.
// A pool that was made there without limits is used as it is.
TEST_F(BtrfsPoolTest, QuotasOfTheHostAreNotTurnedOn) {
  const std::string host_path = directory_ + "/host";
  std::filesystem::create_directory(host_path);
  const Fd host{::open(host_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  ASSERT_TRUE(LoopPool::create(host.get(), host_path, 512 * kMebibyte));
  auto mounted = LoopPool::open(host.get(), host_path);
  ASSERT_TRUE(mounted) << mounted.error().message;
  {
    std::filesystem::create_directories(mounted->mount_path() + "/pool/layers");
    const auto direct = open_pool({.directory = mounted->mount_path() + "/pool"});
    ASSERT_TRUE(direct) << direct.error().message;
    const auto status = (*direct)->status();
    EXPECT_EQ(status->backend, Backend::kBtrfs);
    EXPECT_FALSE(status->quota);
    EXPECT_TRUE((*direct)->create_upper("sb", 8 * kMebibyte)) << "works, without a limit";
    EXPECT_EQ((*direct)->set_upper_limit("sb", 8 * kMebibyte).error().code, Code::kUnimplemented);
    EXPECT_TRUE((*direct)->close());
  }
  EXPECT_TRUE(mounted->close());
}

// Ends and reaps a process however the test ends.
struct Ending {
  pid_t pid = -1;
  ~Ending() { now(); }
  void now() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
      pid = -1;
    }
  }
};

// The node is killed; a sandbox it made lives on in a mount namespace that holds the pool. The next
// node must find the same loop device: a second one over the same file would destroy the pool.
TEST_F(BtrfsPoolTest, SandboxThatOutlivesItsNodeKeepsTheDevice) {
  ASSERT_TRUE(pool_->close());
  pool_.reset();
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t node = ::fork();
  ASSERT_GE(node, 0);
  if (node == 0) {
    pid_t sandbox = -1;
    if (::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
      if (auto opened = open_pool(options())) {
        const auto upper = (*opened)->create_upper("survivor", 0);
        write_text(*upper + "/upper/note", "written before the kill");
        if (::fork() == 0) {
          // What exec does to a real sandbox: it keeps nothing but what it was given.
          ::dup2(ends[1], 0);
          ::close_range(1, ~0U, 0);
          sandbox = ::getpid();
          (void)!::write(0, &sandbox, sizeof sandbox);
        }
        ::pause();
      }
    }
    (void)!::write(ends[1], &sandbox, sizeof sandbox);
    ::_exit(1);
  }
  pid_t sandbox = -1;
  EXPECT_EQ(::read(ends[0], &sandbox, sizeof sandbox), static_cast<ssize_t>(sizeof sandbox));
  ::close(ends[0]);
  ::close(ends[1]);
  Ending{.pid = node}.now();
  ASSERT_GT(sandbox, 0);
  Ending sandbox_ending{.pid = sandbox};
  EXPECT_EQ(loop_devices_of(directory_), 1) << "the sandbox holds it";

  ASSERT_NO_FATAL_FAILURE(open());
  EXPECT_EQ(loop_devices_of(directory_), 1) << "used again, not attached twice";
  EXPECT_EQ(read_text(pool_->upper_path("survivor") + "/upper/note"), "written before the kill");
  ASSERT_TRUE(pool_->create_upper("next", 0));

  sandbox_ending.now();
  const auto closed = pool_->close();
  ASSERT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(loop_devices_of(directory_), 0);
}

// A host's own btrfs, as distributions make it: without quotas.
TEST_F(BtrfsPoolTest, ABtrfsWithoutQuotaGetsALoopFile) {
  ASSERT_TRUE(pool_->close());
  pool_.reset();
  auto host = open_pool({.directory = directory_ + "/host", .loop_bytes = 4ULL << 30});
  ASSERT_TRUE(host) << host.error().message;
  host_ = *std::move(host);
  {
    const Fd root{::open((directory_ + "/host/mnt").c_str(), O_RDONLY | O_CLOEXEC)};
    btrfs_ioctl_quota_ctl_args off{.cmd = BTRFS_QUOTA_CTL_DISABLE, .status = 0};
    ASSERT_EQ(::ioctl(root.get(), BTRFS_IOC_QUOTA_CTL, &off), 0);
  }
  ASSERT_NO_FATAL_FAILURE(open());
  EXPECT_TRUE(pool_->status()->quota);
  const std::string image = directory_ + "/host/mnt/pool/pool.img";
  const Fd fd{::open(image.c_str(), O_RDONLY | O_CLOEXEC)};
  int flags = 0;
  ASSERT_EQ(::ioctl(fd.get(), FS_IOC_GETFLAGS, &flags), 0);
  EXPECT_NE(flags & FS_NOCOW_FL, 0);
  const std::string path = *pool_->create_upper("sb", 8 * kMebibyte) + "/upper";
  EXPECT_EQ(fill_file(path + "/a", 16 * kMebibyte), EDQUOT);
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(pool_->has_upper("sb"));
}

TEST(LoopSize, LeavesAReserveToTheHost) {
  constexpr std::uint64_t kGibibyte = 1ULL << 30;
  EXPECT_EQ(*choose_loop_bytes(100 * kGibibyte, 50 * kGibibyte, 0) >> 30, 40U);
  EXPECT_EQ(*choose_loop_bytes(4 * kGibibyte, 4 * kGibibyte, 0) >> 30, 3U);
  EXPECT_LE(*choose_loop_bytes(1000 * kGibibyte, 60 * kGibibyte, 0), 10 * kGibibyte);
  const auto none = choose_loop_bytes(100 * kGibibyte, 6 * kGibibyte, 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kResourceExhausted);
  EXPECT_NE(none.error().message.find("7168Mi"), std::string::npos) << none.error().message;
  EXPECT_EQ(*choose_loop_bytes(100 * kGibibyte, 6 * kGibibyte, kGibibyte), kGibibyte);
  EXPECT_FALSE(choose_loop_bytes(100 * kGibibyte, 6 * kGibibyte, 2 * kGibibyte));
  EXPECT_EQ(choose_loop_bytes(100 * kGibibyte, 0, 1).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::layers
