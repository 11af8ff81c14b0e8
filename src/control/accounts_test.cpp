#include "control/accounts.h"

#include <gtest/gtest.h>

namespace atl::control {
namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "broken line\n"
    "app:x:1000:1001::/srv:/bin/sh\n"
    "huge:x:70000:70000::/x:/bin/sh\n";

TEST(Accounts, AreFoundByNameAndNumber) {
  ASSERT_TRUE(find_account(kPasswd, "app"));
  EXPECT_EQ(find_account(kPasswd, "app")->gid, 1001U);
  EXPECT_EQ(find_account(kPasswd, "1000")->home, "/srv");
  EXPECT_FALSE(find_account(kPasswd, "nobody"));
  EXPECT_FALSE(find_account(kPasswd, "huge"));  // no sandbox has such a number
}

TEST(Accounts, IdsOfNamesAndNumbers) {
  EXPECT_EQ(find_id(kPasswd, "app"), 1000U);
  EXPECT_EQ(find_id(kPasswd, "33"), 33U);
  EXPECT_EQ(find_id(kPasswd, "missing"), std::nullopt);
  EXPECT_EQ(find_id(kPasswd, "65536"), std::nullopt);
}

TEST(Accounts, NewOnesGetFreeNumbers) {
  AccountFiles files{std::string{kPasswd}, "root:x:0:\nother:x:1001:"};
  const auto made = add_account(files, "user", "/bin/bash");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->uid, 1002U);
  EXPECT_EQ(made->home, "/home/user");
  EXPECT_TRUE(files.passwd.ends_with("\nuser:x:1002:1002::/home/user:/bin/bash\n"));
  EXPECT_TRUE(files.group.ends_with("\nother:x:1001:\nuser:x:1002:\n"));
  EXPECT_EQ(find_account(files.passwd, "user")->uid, 1002U);
}

TEST(Accounts, AGroupOfThatNameIsTaken) {
  AccountFiles files{"root:x:0:0::/root:/bin/sh\n", "user:x:50:\n"};
  const auto made = add_account(files, "user", "/bin/sh");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->gid, 50U);
  EXPECT_EQ(files.group, "user:x:50:\n");
}

TEST(Accounts, NamesThatWouldBreakTheFileAreRefused) {
  AccountFiles files;
  for (const std::string_view name : {"", "a:b", "a\nroot::0:0::/:/bin/sh", "-x", "9a", "A"}) {
    EXPECT_FALSE(add_account(files, name, "/bin/sh")) << name;
  }
  EXPECT_TRUE(files.passwd.empty());
}

}  // namespace
}  // namespace atl::control
