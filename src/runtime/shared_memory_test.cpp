// A tree goes into a file and comes back the same.
#include "runtime/namespaces/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"

namespace atl::runtime::namespaces {
namespace {

namespace fs = std::filesystem;

class SharedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-shm-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    fs::create_directories(directory_ / "from");
    fs::create_directories(directory_ / "to");
    archive_ = Fd{::memfd_create("archive", MFD_CLOEXEC)};
  }
  void TearDown() override { fs::remove_all(directory_); }

  int save() { return save_tree((directory_ / "from").c_str(), archive_.get()); }
  int load() {
    ::lseek(archive_.get(), 0, SEEK_SET);
    return load_tree((directory_ / "to").c_str(), archive_.get());
  }
  struct stat stat_of(const char* name) {
    struct stat status{};
    EXPECT_EQ(::lstat((directory_ / name).c_str(), &status), 0) << name;
    return status;
  }

  fs::path directory_;
  Fd archive_;
};

TEST_F(SharedMemoryTest, ComesBackTheSame) {
  fs::create_directories(directory_ / "from/deep/er");
  std::ofstream{directory_ / "from/deep/er/file"} << "content";
  fs::create_symlink("../file", directory_ / "from/deep/link");
  ASSERT_EQ(::mkfifo((directory_ / "from/fifo").c_str(), 0640), 0);
  ASSERT_EQ(::chmod((directory_ / "from/deep").c_str(), 01777), 0);
  ASSERT_EQ(::chown((directory_ / "from/deep/er/file").c_str(), 7, 8), 0);
  ASSERT_EQ(save(), 0);
  ASSERT_EQ(load(), 0);
  std::ifstream file{directory_ / "to/deep/er/file"};
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>{file}, {}), "content");
  EXPECT_EQ(fs::read_symlink(directory_ / "to/deep/link"), "../file");
  EXPECT_TRUE(S_ISFIFO(stat_of("to/fifo").st_mode));
  EXPECT_EQ(stat_of("to/fifo").st_mode & 07777, 0640U);
  EXPECT_EQ(stat_of("to/deep").st_mode & 07777, 01777U);
  EXPECT_EQ(stat_of("to/deep/er/file").st_uid, 7U);
  EXPECT_EQ(stat_of("to/deep/er/file").st_gid, 8U);
}

TEST_F(SharedMemoryTest, HolesStayHoles) {
  const Fd file{::open((directory_ / "from/sparse").c_str(), O_WRONLY | O_CREAT, 0600)};
  ASSERT_EQ(::ftruncate(file.get(), 1 << 30), 0);
  ASSERT_EQ(::pwrite(file.get(), "x", 1, 1 << 29), 1);
  ASSERT_EQ(save(), 0);
  ASSERT_EQ(load(), 0);
  EXPECT_EQ(stat_of("to/sparse").st_size, 1 << 30);
  EXPECT_LT(stat_of("to/sparse").st_blocks, 4096);
}

TEST_F(SharedMemoryTest, AFileWithManyNamesIsThereOnce) {
  fs::create_directories(directory_ / "from/deep");
  std::ofstream{directory_ / "from/file"} << std::string(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) {
    fs::create_hard_link(directory_ / "from/file", directory_ / "from/deep" / std::to_string(i));
  }
  ASSERT_EQ(save_tree((directory_ / "from").c_str(), archive_.get(), 1 << 20), 0);
  EXPECT_LT(::lseek(archive_.get(), 0, SEEK_END), 2 << 20);
  ASSERT_EQ(load(), 0);
  EXPECT_EQ(stat_of("to/file").st_nlink, 21U);
  EXPECT_EQ(stat_of("to/file").st_ino, stat_of("to/deep/7").st_ino);
  EXPECT_EQ(stat_of("to/deep/7").st_size, 1 << 20);
}

TEST_F(SharedMemoryTest, NoMoreThanThereIsRoomFor) {
  std::ofstream{directory_ / "from/file"} << std::string(1 << 20, 'x');
  EXPECT_EQ(save_tree((directory_ / "from").c_str(), archive_.get(), (1 << 20) - 1), EFBIG);
}

TEST_F(SharedMemoryTest, WhatIsNotInMemoryStaysOut) {
  std::ofstream{directory_ / "from/file"} << "content";
  struct statfs status{};
  ASSERT_EQ(::statfs(directory_.c_str(), &status), 0);
  if (status.f_type == TMPFS_MAGIC) {
    GTEST_SKIP() << "here /tmp is in memory";
  }
  ASSERT_EQ(save_memory_tree((directory_ / "from").c_str(), archive_.get()), 0);
  EXPECT_EQ(::lseek(archive_.get(), 0, SEEK_END), 0);
}

// Whatever else is on the same file system.
TEST_F(SharedMemoryTest, ADirectoryInMemoryWithoutEntriesIsNothing) {
  char name[] = "/dev/shm/atoll-shm-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const fs::path in_memory = name;
  std::ofstream{in_memory / "beside"} << "content";
  fs::create_directory(in_memory / "part");
  EXPECT_EQ(save_memory_tree((in_memory / "part").c_str(), archive_.get()), 0);
  EXPECT_EQ(::lseek(archive_.get(), 0, SEEK_END), 0);
  std::ofstream{in_memory / "part/file"} << "content";
  EXPECT_EQ(save_memory_tree((in_memory / "part").c_str(), archive_.get()), 0);
  EXPECT_GT(::lseek(archive_.get(), 0, SEEK_END), 0);
  EXPECT_EQ(load(), 0);
  EXPECT_EQ(stat_of("to/file").st_size, 7);
  fs::remove_all(in_memory);
}

TEST_F(SharedMemoryTest, ADamagedFileIsRefused) {
  std::ofstream{directory_ / "from/file"} << "content";
  ASSERT_EQ(save(), 0);
  ASSERT_EQ(::ftruncate(archive_.get(), ::lseek(archive_.get(), 0, SEEK_END) - 1), 0);
  EXPECT_NE(load(), 0);
}

}  // namespace
}  // namespace atl::runtime::namespaces
