#include "guest/identity.h"

#include <gtest/gtest.h>

#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "\n"
    "broken line\n"
    "bad:x:notanumber:0::/:/bin/sh\n"
    "user:x:1000:1000:User:/home/user:/bin/zsh\n"
    "bare:x:1001:1001:::\n"
    "huge:x:4294967295:0::/:/bin/sh\n"
    "last:x:1002:1002:::/bin/sh";
constexpr std::string_view kGroup =
    "root:x:0:\n"
    "sudo:x:27:other,user\n"
    "notmine:x:28:userx\n"
    "bad:x:z:user\n"
    "docker:x:999:user";

TEST(Identity, FindsNamesIdsAndPairs) {
  struct Case {
    std::string_view user;
    uid_t uid;
    gid_t gid;
    std::string name;
    std::string home;
    std::string shell;
  };
  const Case cases[] = {
      {"", 0, 0, "root", "/root", "/bin/bash"},
      {"root", 0, 0, "root", "/root", "/bin/bash"},
      {"user", 1000, 1000, "user", "/home/user", "/bin/zsh"},
      {"1000", 1000, 1000, "user", "/home/user", "/bin/zsh"},
      {"1000:5", 1000, 5, "user", "/home/user", "/bin/zsh"},
      {"bare", 1001, 1001, "bare", "/", "/bin/sh"},
      {"last", 1002, 1002, "last", "/", "/bin/sh"},
      {"4242", 4242, 0, "4242", "/", "/bin/sh"},
      {"4242:7", 4242, 7, "4242", "/", "/bin/sh"},
  };
  for (const Case& test : cases) {
    const auto identity = resolve_identity(test.user, kPasswd, kGroup);
    ASSERT_TRUE(identity) << test.user;
    EXPECT_EQ(identity->uid, test.uid) << test.user;
    EXPECT_EQ(identity->gid, test.gid) << test.user;
    EXPECT_EQ(identity->name, test.name) << test.user;
    EXPECT_EQ(identity->home, test.home) << test.user;
    EXPECT_EQ(identity->shell, test.shell) << test.user;
  }
}

TEST(Identity, SupplementaryGroupsComeFromTheGroupFile) {
  const auto identity = resolve_identity("user", kPasswd, kGroup);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->groups, (std::vector<gid_t>{27, 999}));
}

TEST(Identity, UnknownNamesAreNotFound) {
  for (const std::string_view user : {"nope", "bad", "huge", "us", "userx"}) {
    const auto identity = resolve_identity(user, kPasswd, kGroup);
    ASSERT_FALSE(identity) << user;
    EXPECT_EQ(identity.error().code, Code::kNotFound);
    EXPECT_EQ(identity.error().reason, "user_not_found");
  }
}

TEST(Identity, MalformedSpecificationsAreRefused) {
  for (const std::string_view user : {"user:1000", "1000:", ":5", "1000:user", "1:2:3"}) {
    EXPECT_FALSE(resolve_identity(user, kPasswd, kGroup)) << user;
  }
  EXPECT_FALSE(resolve_identity("4294967295", kPasswd, kGroup));
  EXPECT_FALSE(resolve_identity("-1", kPasswd, kGroup));
}

TEST(Identity, AnEmptyImageStillHasRootAndNumbers) {
  EXPECT_TRUE(resolve_identity("", "", ""));
  EXPECT_TRUE(resolve_identity("root", "", ""));
  EXPECT_EQ(resolve_identity("0", "", "")->uid, 0U);
  EXPECT_EQ(resolve_identity("12", "", "")->uid, 12U);
  EXPECT_FALSE(resolve_identity("user", "", ""));
}

TEST(Identity, GroupsAreBounded) {
  std::string group;
  for (int i = 0; i < 5000; ++i) {
    group += "g:x:" + std::to_string(i) + ":user\n";
  }
  EXPECT_EQ(resolve_identity("user", kPasswd, group)->groups.size(), kMaxSupplementaryGroups);
}

}  // namespace
}  // namespace atl::guest
