// Snapshots of uppers, over every backend: byte for byte, and independent of what they came from.
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <map>
#include <set>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/pool_fixture.h"

namespace atl::layers {
namespace {

namespace fs = std::filesystem;

using SnapshotTest = PlacedPoolFixture;

// Everything an upper can hold that a careless copy would lose.
void make_everything(const std::string& root) {
  write_text(root + "/plain", "hello");
  write_text(root + "/setuid", "x");
  ASSERT_EQ(::chown((root + "/setuid").c_str(), 1000, 1001), 0);
  ASSERT_EQ(::chmod((root + "/setuid").c_str(), 04755), 0);
  write_text(root + "/closed", "x");
  ASSERT_EQ(::chmod((root + "/closed").c_str(), 0), 0);
  fs::create_directories(root + "/deep/er/still");
  write_text(root + "/deep/er/still/first", "shared");
  fs::create_hard_link(root + "/deep/er/still/first", root + "/second");
  fs::create_hard_link(root + "/second", root + "/deep/third");
  fs::create_symlink("/etc/passwd", root + "/link");
  fs::create_symlink("nowhere", root + "/dangling");
  ASSERT_EQ(::mkfifo((root + "/fifo").c_str(), 0640), 0);
  ASSERT_EQ(::mknod((root + "/whiteout").c_str(), S_IFCHR | 0000, makedev(0, 0)), 0);
  ASSERT_EQ(::mknod((root + "/socket").c_str(), S_IFSOCK | 0755, 0), 0);
  write_text(root + "/\xc3\xa9\n odd \xff", "odd name");
  const std::string sparse = root + "/sparse";
  write_text(sparse, "begin");
  ASSERT_EQ(::truncate(sparse.c_str(), 64L << 20), 0);
  ASSERT_EQ(::setxattr((root + "/plain").c_str(), "user.note", "a\0b", 3, 0), 0);
  ASSERT_EQ(::setxattr((root + "/deep").c_str(), "user.overlay.opaque", "y", 1, 0), 0);
  const timespec old[2] = {{1, 5}, {1'000'000'000, 123'456'789}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root + "/plain").c_str(), old, 0), 0);
  ASSERT_EQ(::utimensat(AT_FDCWD, (root + "/link").c_str(), old, AT_SYMLINK_NOFOLLOW), 0);
  ASSERT_EQ(::utimensat(AT_FDCWD, (root + "/deep").c_str(), old, 0), 0);
  ASSERT_EQ(::chmod(root.c_str(), 01711), 0);
}

std::string attributes_of(const std::string& path) {
  char names[4096];
  const ssize_t size = ::llistxattr(path.c_str(), names, sizeof names);
  std::map<std::string, std::string> values;
  for (const char* name = names; size > 0 && name < names + size;
       name += std::string_view{name}.size() + 1) {
    char value[4096];
    const ssize_t length = ::lgetxattr(path.c_str(), name, value, sizeof value);
    values[name] = length < 0 ? "unreadable" : hex({value, static_cast<std::size_t>(length)});
  }
  std::string text;
  for (const auto& [name, value] : values) {
    text += concat(" ", name, "=", value);
  }
  return text;
}

// One line for each file: all that stat, its content and its attributes say. Names of one file are
// shown by the first of them.
std::map<std::string, std::string> describe(const std::string& root) {
  std::map<std::string, std::string> lines;
  std::map<ino_t, std::string> first_name;
  std::set<std::string> paths{root};
  for (const auto& entry : fs::recursive_directory_iterator{root}) {
    paths.insert(entry.path().string());
  }
  for (const std::string& path : paths) {
    struct stat info{};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    const std::string name = path.substr(root.size());
    std::string content;
    if (S_ISREG(info.st_mode)) {
      content = read_text(path);
      content = concat(content.size(), ":", std::hash<std::string>{}(content));
    } else if (S_ISLNK(info.st_mode)) {
      content = fs::read_symlink(path).string();
    }
    first_name.try_emplace(info.st_ino, name);
    lines[name] = concat(info.st_mode, " ", info.st_uid, ":", info.st_gid, " ", info.st_rdev, " ",
                         info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, " ",
                         S_ISDIR(info.st_mode) ? 0 : info.st_nlink, " ", first_name[info.st_ino],
                         " ", content, attributes_of(path));
  }
  return lines;
}

TEST_P(SnapshotTest, AnAttributeOfTheDiskGoesAlong) {
  constexpr const char* kName = "trusted.atoll.cell";
  const auto owner = [&](const std::string& id) {
    char text[64] = {};
    return ::getxattr(pool_->upper_path(id).c_str(), kName, text, sizeof text) < 0
               ? std::string{}
               : std::string{text};
  };
  ASSERT_TRUE(pool_->create_upper("sb", 0));
  ASSERT_EQ(::setxattr(pool_->upper_path("sb").c_str(), kName, "sb", 2, 0), 0);
  ASSERT_TRUE(pool_->snapshot_upper("sb", "moment"));
  ASSERT_TRUE(pool_->create_upper_from("child", "moment", 0));
  EXPECT_EQ(owner("child"), "sb") << "the runtime sees that it is another's";
  ASSERT_TRUE(pool_->restore_upper("sb", "moment", 0));
  EXPECT_EQ(owner("sb"), "sb");
}

TEST_P(SnapshotTest, EverythingSurvivesTheTrip) {
  const std::string upper = *pool_->create_upper("parent", 0) + "/upper";
  ASSERT_NO_FATAL_FAILURE(make_everything(upper));
  const auto before = describe(upper);
  ASSERT_GT(before.size(), 15U);
  const auto taken = pool_->snapshot_upper("parent", "snap-1");
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(describe(pool_->snapshot_path("snap-1") + "/upper"), before);
  const auto child = pool_->create_upper_from("child", "snap-1", 0);
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(describe(*child + "/upper"), before);
  EXPECT_TRUE(fs::is_directory(*child + "/work"));
  struct stat info{};
  ASSERT_EQ(::stat((*child + "/upper/sparse").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1L << 20) << "holes stay holes";
}

TEST_P(SnapshotTest, NobodyChangesAnybodyElse) {
  const std::string parent = *pool_->create_upper("parent", 0) + "/upper";
  write_text(parent + "/file", "one");
  ASSERT_TRUE(pool_->snapshot_upper("parent", "snap-1"));
  write_text(parent + "/file", "two");
  const std::string child = *pool_->create_upper_from("child", "snap-1", 0) + "/upper";
  EXPECT_EQ(read_text(child + "/file"), "one");
  write_text(child + "/file", "three");
  EXPECT_EQ(read_text(parent + "/file"), "two");
  EXPECT_EQ(read_text(pool_->snapshot_path("snap-1") + "/upper/file"), "one");

  ASSERT_TRUE(pool_->remove_upper("parent"));
  ASSERT_TRUE(pool_->remove_snapshot("snap-1"));
  EXPECT_FALSE(pool_->has_snapshot("snap-1"));
  EXPECT_TRUE(pool_->remove_snapshot("snap-1")) << "idempotent";
  EXPECT_EQ(read_text(child + "/file"), "three");
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_EQ(read_text(pool_->upper_path("child") + "/upper/file"), "three");
  EXPECT_TRUE(pool_->list_snapshots()->empty());
}

TEST_P(SnapshotTest, ASnapshotThatIsTakenIsTheUpper) {
  const std::string parent = *pool_->create_upper("parent", 0) + "/upper";
  write_text(parent + "/file", "one");
  for (const bool passing : {true, false}) {
    const std::string child = passing ? "first" : "second";
    ASSERT_TRUE(pool_->snapshot_upper("parent", "moment", {.passing = passing}));
    EXPECT_EQ(pool_->take_snapshot("parent", "moment", 0).error().code, Code::kAlreadyExists);
    ASSERT_TRUE(pool_->has_snapshot("moment")) << "it stays where it was";
    const auto taken = pool_->take_snapshot(child, "moment", 64ULL << 20);
    ASSERT_TRUE(taken) << taken.error().message;
    EXPECT_EQ(*taken, pool_->upper_path(child));
    EXPECT_FALSE(pool_->has_snapshot("moment"));
    EXPECT_EQ(read_text(*taken + "/upper/file"), "one");
    write_text(*taken + "/upper/file", child);
    EXPECT_EQ(read_text(parent + "/file"), "one");
    EXPECT_TRUE(fs::is_directory(*taken + "/work"));
    EXPECT_EQ(pool_->take_snapshot("third", "moment", 0).error().code, Code::kNotFound);
  }
  ASSERT_TRUE(pool_->commit_uppers());
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_EQ(read_text(pool_->upper_path("first") + "/upper/file"), "first");
  EXPECT_EQ(read_text(pool_->upper_path("second") + "/upper/file"), "second");
}

TEST_P(SnapshotTest, RestoreGivesTheMomentBack) {
  const std::string upper = *pool_->create_upper("box", 0) + "/upper";
  write_text(upper + "/file", "good");
  ASSERT_TRUE(pool_->snapshot_upper("box", "snap-1"));
  write_text(upper + "/file", "bad");
  write_text(upper + "/more", "bad");
  const auto restored = pool_->restore_upper("box", "snap-1", 0);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(read_text(upper + "/file"), "good");
  EXPECT_FALSE(fs::exists(upper + "/more"));
  ASSERT_TRUE(pool_->has_snapshot("snap-1"));
  ASSERT_TRUE(pool_->remove_upper("box"));
  ASSERT_TRUE(pool_->restore_upper("box", "snap-1", 0)) << "also when the upper is gone";
  EXPECT_EQ(read_text(upper + "/file"), "good");
  EXPECT_EQ(*pool_->list_uppers(), std::vector<std::string>{"box"});
}

TEST_P(SnapshotTest, ManyGenerationsStayFlat) {
  ASSERT_TRUE(pool_->create_upper("g0", 0));
  for (int i = 1; i <= 30; ++i) {
    const std::string parent = concat("g", i - 1);
    write_text(concat(pool_->upper_path(parent), "/upper/", i), "x");
    ASSERT_TRUE(pool_->snapshot_upper(parent, "step"));
    const auto child = pool_->create_upper_from(concat("g", i), "step", 0);
    ASSERT_TRUE(child) << i << ": " << child.error().message;
    ASSERT_TRUE(pool_->remove_snapshot("step"));
    ASSERT_TRUE(pool_->remove_upper(parent));
  }
  const std::string last = pool_->upper_path("g30") + "/upper";
  EXPECT_EQ(std::distance(fs::directory_iterator{last}, {}), 30);
}

TEST_P(SnapshotTest, Refusals) {
  ASSERT_TRUE(pool_->create_upper("box", 0));
  EXPECT_EQ(pool_->snapshot_upper("nobody", "snap").error().code, Code::kNotFound);
  EXPECT_FALSE(pool_->has_snapshot("snap"));
  EXPECT_EQ(pool_->create_upper_from("new", "snap", 0).error().code, Code::kNotFound);
  EXPECT_EQ(pool_->restore_upper("box", "snap", 0).error().code, Code::kNotFound);
  EXPECT_TRUE(pool_->has_upper("box"));
  ASSERT_TRUE(pool_->snapshot_upper("box", "snap"));
  EXPECT_EQ(pool_->snapshot_upper("box", "snap").error().code, Code::kAlreadyExists);
  EXPECT_EQ(pool_->create_upper_from("box", "snap", 0).error().code, Code::kAlreadyExists);
  for (const char* name : {"", "..", "../x", "a/b", ".hidden"}) {
    EXPECT_FALSE(pool_->snapshot_upper("box", name)) << name;
    EXPECT_FALSE(pool_->snapshot_upper(name, "other")) << name;
    EXPECT_FALSE(pool_->create_upper_from(name, "snap", 0)) << name;
    EXPECT_FALSE(pool_->restore_upper("box", name, 0)) << name;
    EXPECT_FALSE(pool_->remove_snapshot(name)) << name;
  }
  EXPECT_EQ(*pool_->list_uppers(), std::vector<std::string>{"box"}) << "no half-made ones";
}

TEST_P(SnapshotTest, ASnapshotCannotBeChanged) {
  if (pool_->status()->backend != Backend::kBtrfs) {
    GTEST_SKIP() << "only btrfs can make a directory read-only as a whole";
  }
  ASSERT_TRUE(pool_->create_upper("box", 0));
  ASSERT_TRUE(pool_->snapshot_upper("box", "snap"));
  const Fd fd{
      ::open((pool_->snapshot_path("snap") + "/upper/x").c_str(), O_WRONLY | O_CREAT, 0600)};
  EXPECT_FALSE(fd);
  EXPECT_EQ(errno, EROFS);
}

TEST_P(SnapshotTest, ACopyHasItsOwnLimit) {
  if (!pool_->status()->quota) {
    GTEST_SKIP() << "no quota here";
  }
  constexpr std::uint64_t kMebibyte = 1U << 20;
  const std::string parent = *pool_->create_upper("parent", 64 * kMebibyte) + "/upper";
  write_text(parent + "/big", std::string(32 * kMebibyte, 'x'));
  ASSERT_TRUE(pool_->snapshot_upper("parent", "snap"));
  const auto child = pool_->create_upper_from("child", "snap", 48 * kMebibyte);
  ASSERT_TRUE(child) << child.error().message;
  const auto usage = pool_->upper_usage("child");
  EXPECT_EQ(usage->limit_bytes, 48 * kMebibyte);
  EXPECT_GE(usage->used_bytes, 32 * kMebibyte) << "what was copied counts";
  EXPECT_EQ(read_text(*child + "/upper/big").size(), 32 * kMebibyte);
  const Fd fd{::open((*child + "/upper/more").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  const std::string block(kMebibyte, 'y');
  int written = 0;
  while (written < 64 && ::write(fd.get(), block.data(), block.size()) > 0 &&
         ::fsync(fd.get()) == 0) {
    ++written;
  }
  EXPECT_EQ(errno, EDQUOT) << "after " << written << " MiB";
  EXPECT_LE(written, 16);
  ASSERT_TRUE(pool_->snapshot_upper("child", "again"));
  ASSERT_TRUE(pool_->restore_upper("child", "again", 48 * kMebibyte));
  EXPECT_GE(pool_->upper_usage("child")->used_bytes, 44 * kMebibyte) << "no way to more space";
  ASSERT_TRUE(pool_->snapshot_upper("child", "moment", {.passing = true}));
  ASSERT_TRUE(pool_->take_snapshot("taken", "moment", 56 * kMebibyte));
  EXPECT_GE(pool_->upper_usage("taken")->used_bytes, 44 * kMebibyte);
  EXPECT_EQ(pool_->upper_usage("taken")->limit_bytes, 56 * kMebibyte);
}

INSTANTIATE_TEST_SUITE_P(Places, SnapshotTest,
                         ::testing::Values(Place::kLoop, Place::kDirect, Place::kReflink,
                                           Place::kPlain),
                         place_name);

}  // namespace
}  // namespace atl::layers
