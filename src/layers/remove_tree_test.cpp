// Trees as a hostile sandbox would leave them.
#include "layers/remove_tree.h"

#include "base/fd.h"
#include "layers/directory.h"
#include "layers/limits.h"
#include "layers/pool_fixture.h"

namespace atl::layers {
namespace {

class RemoveTreeTest : public PoolFixture {
 protected:
  void SetUp() override {
    PoolFixture::SetUp();
    if (!directory_.empty()) {
      root_ = *open_directory(AT_FDCWD, directory_);
    }
  }

  Fd root_;
};

TEST_F(RemoveTreeTest, DeeperThanAnyPathCanBe) {
  Fd at = *root_.duplicate();
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0700), 0);
    at = *open_directory(at.get(), "d");
  }
  at.reset();
  EXPECT_FALSE(measure_tree(root_.get(), "d"));
  ASSERT_TRUE(remove_tree(root_.get(), "d"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "nothing that was moved up stays";
}

TEST_F(RemoveTreeTest, LinksAreRemovedNotFollowed) {
  std::filesystem::create_directories(directory_ + "/keep");
  write_text(directory_ + "/keep/file", "precious");
  std::filesystem::create_directories(directory_ + "/tree/sub");
  std::filesystem::create_symlink(directory_ + "/keep", directory_ + "/tree/link");
  std::filesystem::create_symlink("../../keep", directory_ + "/tree/sub/up");
  ASSERT_TRUE(remove_tree(root_.get(), "tree"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/tree"));
  EXPECT_EQ(read_text(directory_ + "/keep/file"), "precious");
  std::filesystem::create_symlink("keep", directory_ + "/top");
  ASSERT_TRUE(remove_tree(root_.get(), "top"));
  EXPECT_EQ(read_text(directory_ + "/keep/file"), "precious");
}

TEST_F(RemoveTreeTest, MountPointsAreNotEntered) {
  std::filesystem::create_directories(directory_ + "/tree/mount");
  ASSERT_EQ(::mount("tmpfs", (directory_ + "/tree/mount").c_str(), "tmpfs", 0, nullptr), 0);
  write_text(directory_ + "/tree/mount/file", "not ours");
  const auto removed = remove_tree(root_.get(), "tree");
  EXPECT_FALSE(removed);
  EXPECT_EQ(read_text(directory_ + "/tree/mount/file"), "not ours");
  ASSERT_EQ(::umount2((directory_ + "/tree/mount").c_str(), 0), 0);
  EXPECT_TRUE(remove_tree(root_.get(), "tree"));
}

TEST_F(RemoveTreeTest, MissingIsRemoved) {
  EXPECT_TRUE(remove_tree(root_.get(), "nothing"));
}

TEST_F(RemoveTreeTest, MeasuresWhatIsOnDisk) {
  std::filesystem::create_directories(directory_ + "/tree/a");
  write_text(directory_ + "/tree/a/data", std::string(1 << 20, 'x'));
  write_text(directory_ + "/tree/hole", "");
  ASSERT_EQ(::truncate((directory_ + "/tree/hole").c_str(), 1 << 30), 0);
  const auto bytes = measure_tree(root_.get(), "tree");
  ASSERT_TRUE(bytes);
  EXPECT_GE(*bytes, 1U << 20);
  EXPECT_LT(*bytes, 2U << 20);
}

}  // namespace
}  // namespace atl::layers
