#include "image/bootstrap.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <map>

#include "base/fd.h"
#include "image/bootstrap_progress.h"
#include "image/temporary_directory.h"

namespace atl::image {
namespace {

TEST(BootstrapProgress, FollowsARunAndNeverGoesBack) {
  BootstrapProgress progress;
  double last = 0;
  std::map<std::string, double> reached;
  const auto feed = [&](std::string_view line) {
    if (progress.on_line(line)) {
      EXPECT_GE(progress.fraction(), last) << line;
      EXPECT_LE(progress.fraction(), 1.0);
      last = progress.fraction();
      reached[progress.step()] = last;
    }
  };
  feed("I: running apt-get update...");
  feed("Get:1 http://mirror.example/debian bookworm InRelease [151 kB]");
  feed("I: downloading packages with apt...");
  feed("0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.");
  feed("Get:1 a");
  feed("Get:2 b");
  feed("I: extracting archives...");
  feed("I: installing essential packages...");
  feed("Setting up a (1) ...");
  feed("Setting up b (1) ...");
  feed("I: installing remaining packages inside the chroot...");
  feed("0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.");
  feed("Get:1 c");
  feed("Get:2 d");
  feed("Fetched 9407 kB in 1s (8944 kB/s)");
  feed("Unpacking c (1) ...");
  feed("Unpacking d (1) ...");
  feed("Setting up c (1) ...");
  EXPECT_EQ(progress.step(), "installing packages");
  feed("Setting up d (1) ...");
  feed("Setting up more than announced (1) ...");
  feed("I: cleaning package lists and apt cache...");
  EXPECT_EQ(progress.step(), "cleaning up");
  EXPECT_DOUBLE_EQ(reached["installing the base system"], 0.25);
  EXPECT_DOUBLE_EQ(reached["downloading packages"], 0.40);
  EXPECT_DOUBLE_EQ(reached["installing packages"], 0.85);
}

TEST(BootstrapProgress, NoiseIsIgnored) {
  BootstrapProgress progress;
  for (const char* line :
       {"", "I: ", " newly installed", "x newly installed", "Get:", "Setting up "}) {
    EXPECT_FALSE(progress.on_line(line)) << line;
  }
}

class FinishTreeTest : public TemporaryDirectoryTest {
 protected:
  Result<> finish(const Recipe& recipe) {
    const Fd tree{::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    return finish_tree(recipe, tree.get());
  }
};

TEST_F(FinishTreeTest, WritesAndRemoves) {
  std::filesystem::create_directories(directory_ + "/etc");
  write_text(directory_ + "/etc/passwd-", "backup");
  ASSERT_TRUE(finish({.files = {{.path = "etc/motd", .content = "hi\n", .mode = 0440}},
                      .removed_files = {"etc/passwd-", "etc/none", "none/at/all"}}));
  EXPECT_EQ(read_text(directory_ + "/etc/motd"), "hi\n");
  struct stat info{};
  ASSERT_EQ(::stat((directory_ + "/etc/motd").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0440U);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/etc/passwd-"));
}

TEST_F(FinishTreeTest, LinksInTheTreeDoNotLeadOut) {
  std::filesystem::create_directories(directory_ + "/tree/etc");
  write_text(directory_ + "/host", "host");
  std::filesystem::create_symlink(directory_ + "/host", directory_ + "/tree/etc/resolv.conf");
  std::filesystem::create_symlink(directory_, directory_ + "/tree/out");
  const Fd tree{::open((directory_ + "/tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  ASSERT_TRUE(finish_tree({.files = {{.path = "etc/resolv.conf", .content = "new"}}}, tree.get()));
  EXPECT_EQ(read_text(directory_ + "/host"), "host");
  EXPECT_EQ(read_text(directory_ + "/tree/etc/resolv.conf"), "new");
  EXPECT_FALSE(finish_tree({.files = {{.path = "out/evil", .content = "x"}}}, tree.get()));
  EXPECT_FALSE(finish_tree({.files = {{.path = "../evil", .content = "x"}}}, tree.get()));
  ASSERT_TRUE(finish_tree({.removed_files = {"out/host"}}, tree.get()));
  EXPECT_EQ(read_text(directory_ + "/host"), "host");
}

}  // namespace
}  // namespace atl::image
