// Copies that break off.
#include "layers/copy_tree.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "base/strings.h"
#include "layers/directory.h"
#include "layers/names.h"
#include "layers/pool_fixture.h"

namespace atl::layers {
namespace {

class CopyTreeTest : public PoolFixture {};

// The kernel ends a process that writes more than it may: as good as a power cut, and in time.
TEST_F(CopyTreeTest, WhatADeadNodeLeavesIsRecognisedAsHalfMade) {
  std::filesystem::create_directories(directory_ + "/from/tree");
  std::filesystem::create_directories(directory_ + "/to");
  write_text(directory_ + "/from/tree/file", std::string(8192, 'x'));
  const auto from = open_directory(AT_FDCWD, directory_ + "/from");
  const auto to = open_directory(AT_FDCWD, directory_ + "/to");
  ASSERT_TRUE(from && to);
  const TreePlace source{from->get(), "tree"};
  const TreePlace target{to->get(), concat(kNewPrefix, "tree")};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{.rlim_cur = 4096, .rlim_max = 4096};
    ::setrlimit(RLIMIT_FSIZE, &none);
    (void)copy_tree(source, target);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) {
    GTEST_SKIP() << "this file system shares blocks instead of writing them";
  }
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator{directory_ + "/to"}) {
    EXPECT_TRUE(entry.path().filename().string().starts_with(kNewPrefix)) << entry.path();
    ++left;
  }
  EXPECT_EQ(left, 2U);
}

}  // namespace
}  // namespace atl::layers
