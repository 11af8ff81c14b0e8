// Archives and the cache: small trees made here, no network.
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>

#include "base/strings.h"
#include "image/archive.h"
#include "image/room.h"
#include "image/temporary_directory.h"

namespace atl::image {
namespace {

const Progress kSilent = [](std::string_view, double) {};

class ArchiveTest : public TemporaryDirectoryTest {
 protected:
  void SetUp() override {
    TemporaryDirectoryTest::SetUp();
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    tree_ = directory_ + "/tree";
    archive_ = directory_ + "/a.tar.zst";
    std::filesystem::create_directories(tree_ + "/bin");
    std::filesystem::create_directories(tree_ + "/dev");
    write_text(tree_ + "/dev/node", "");
    write_text(tree_ + "/bin/tool", "#!/bin/sh\n");
    ASSERT_EQ(::chown((tree_ + "/bin/tool").c_str(), 1234, 4321), 0);
    ASSERT_EQ(::chmod((tree_ + "/bin/tool").c_str(), 06755), 0);
    std::filesystem::create_symlink("/etc/passwd", tree_ + "/bin/link");
    std::filesystem::create_hard_link(tree_ + "/bin/tool", tree_ + "/bin/twin");
    ASSERT_EQ(::lsetxattr((tree_ + "/bin").c_str(), "trusted.atoll", "v", 1, 0), 0);
    out_ = directory_ + "/out";
    std::filesystem::create_directories(out_);
  }

  std::string tree_;
  std::string archive_;
  std::string out_;
};

TEST_F(ArchiveTest, KeepsEverything) {
  const auto packed = pack(tree_, {"dev"}, archive_);
  ASSERT_TRUE(packed) << packed.error().message;
  const mode_t before = ::umask(077);
  const auto unpacked = unpack(archive_, out_, kSilent);
  ::umask(before);
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  struct stat tool{};
  struct stat twin{};
  ASSERT_EQ(::stat((out_ + "/bin/tool").c_str(), &tool), 0);
  ASSERT_EQ(::stat((out_ + "/bin/twin").c_str(), &twin), 0);
  EXPECT_EQ(tool.st_uid, 1234U);
  EXPECT_EQ(tool.st_gid, 4321U);
  EXPECT_EQ(tool.st_mode & 07777, 06755U);
  EXPECT_EQ(tool.st_ino, twin.st_ino);
  EXPECT_EQ(std::filesystem::read_symlink(out_ + "/bin/link"), "/etc/passwd");
  char value[8];
  EXPECT_EQ(::lgetxattr((out_ + "/bin").c_str(), "trusted.atoll", value, sizeof value), 1);
  EXPECT_TRUE(std::filesystem::is_directory(out_ + "/dev"));
  EXPECT_TRUE(std::filesystem::is_empty(out_ + "/dev")) << "packed without its contents";
}

TEST_F(ArchiveTest, SameTreeSameBytes) {
  ASSERT_TRUE(pack(tree_, {}, archive_));
  ASSERT_TRUE(pack(tree_, {}, archive_ + "2"));
  EXPECT_EQ(read_text(archive_), read_text(archive_ + "2"));
}

TEST_F(ArchiveTest, DamageIsAnError) {
  ASSERT_TRUE(pack(tree_, {}, archive_));
  std::filesystem::resize_file(archive_, std::filesystem::file_size(archive_) - 5);
  const auto unpacked = unpack(archive_, out_, kSilent);
  ASSERT_FALSE(unpacked);
  EXPECT_NE(unpacked.error().message.find("tar failed"), std::string::npos);
}

TEST_F(ArchiveTest, TargetMustBeEmpty) {
  ASSERT_TRUE(pack(tree_, {}, archive_));
  write_text(out_ + "/mine", "x");
  EXPECT_EQ(unpack(archive_, out_, kSilent).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(unpack(archive_, out_ + "/none", kSilent).error().code, Code::kFailedPrecondition);
}

class CacheTest : public TemporaryDirectoryTest {
 protected:
  void SetUp() override {
    TemporaryDirectoryTest::SetUp();
    utsname names{};
    ::uname(&names);
    archive_ = concat(directory_, "/", builtin_.name, "-", builtin_.version, "-", names.machine,
                      ".tar.zst");
  }

  bool found() const { return find_cached(builtin_, directory_).has_value(); }

  BuiltinTemplate builtin_ = default_template();
  std::string archive_;
};

TEST_F(CacheTest, OnlyACompleteArchiveIsFound) {
  EXPECT_FALSE(found()) << "nothing there";
  write_text(archive_, "12345");
  EXPECT_FALSE(found()) << "no marker";
  write_text(archive_ + ".ok", "");
  EXPECT_FALSE(found()) << "empty marker";
  write_text(archive_ + ".ok", "size 6\nsha256 x\n");
  EXPECT_FALSE(found()) << "half-written";
  write_text(archive_ + ".ok", "size 5\nsha256 x\n");
  ASSERT_EQ(::chmod(archive_.c_str(), 0644), 0);
  ASSERT_TRUE(found());
  EXPECT_EQ(*find_cached(builtin_, directory_), archive_);
  builtin_.version = "000000000000";
  EXPECT_FALSE(found()) << "another recipe";
}

TEST_F(CacheTest, ArchiveThatOthersCouldHaveWrittenIsNotUsed) {
  write_text(archive_, "12345");
  write_text(archive_ + ".ok", "size 5\n");
  ASSERT_EQ(::chmod(archive_.c_str(), 0646), 0);
  EXPECT_FALSE(found());
  std::filesystem::rename(archive_, directory_ + "/real");
  ASSERT_EQ(::chmod((directory_ + "/real").c_str(), 0644), 0);
  std::filesystem::create_symlink("real", archive_);
  EXPECT_FALSE(found()) << "a link";
}

TEST_F(CacheTest, BuildRefusesWhatItCannotBuild) {
  EXPECT_EQ(build({.name = "windows", .version = "1"}, directory_, kSilent).error().code,
            Code::kNotFound);
  EXPECT_EQ(build({.name = "default", .version = "old"}, directory_, kSilent).error().code,
            Code::kFailedPrecondition);
}

TEST_F(CacheTest, CacheDirectoryComesFromTheEnvironment) {
  ::setenv("ATOLL_CACHE_DIR", "/somewhere/else", 1);
  EXPECT_EQ(default_cache_dir(), "/somewhere/else");
  ::unsetenv("ATOLL_CACHE_DIR");
  EXPECT_EQ(default_cache_dir(), "/var/cache/atoll");
}

}  // namespace
}  // namespace atl::image
