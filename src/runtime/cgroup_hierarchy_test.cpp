#include "runtime/namespaces/cgroup_hierarchy.h"

#include <gtest/gtest.h>

#include "runtime/namespaces/process.h"

namespace atl::runtime::namespaces {
namespace {

TEST(CgroupMountsTest, FindsBothVersions) {
  const auto mounts = parse_cgroup_mounts(
      "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
      "42 31 0:39 / /odd\\040name rw - cgroup2 cgroup2 rw\n"
      "broken line - cgroup2\n\n");
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_FALSE(mounts[0].version2);
  EXPECT_EQ(mounts[0].path, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_TRUE(mounts[0].has("cpu"));
  EXPECT_TRUE(mounts[0].has("cpuacct"));
  EXPECT_FALSE(mounts[0].has("memory"));
  EXPECT_TRUE(mounts[1].version2);
}

TEST(StartTimeTest, TheNameMayHoldAnything) {
  const auto time = parse_start_time(
      "77 (a) b) S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1 18446744073709551615");
  ASSERT_TRUE(time);
  EXPECT_EQ(*time, 987654U);
  EXPECT_FALSE(parse_start_time("77 (a"));
  EXPECT_FALSE(parse_start_time("77 (a) S 1"));
}

}  // namespace
}  // namespace atl::runtime::namespaces
