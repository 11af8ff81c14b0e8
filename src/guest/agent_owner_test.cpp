// Requests for the owner of a volume: root's rights, but what is made is somebody else's; and
// making it durable.
#include <sys/stat.h>

#include "guest/agent_fixture.h"

namespace atl::guest {
namespace {

class AgentOwner : public AgentTest {
 protected:
  static constexpr const char* kOwner = "owner:1234:2345";

  void SetUp() override {
    AgentTest::SetUp();
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
  }
  std::string write(const std::string& name, const std::string& content) {
    TestClient client = connect();
    client.send(Kind::kWriteFile, encode(WriteFileRequest{.path = path(name), .user = kOwner}));
    client.send(Kind::kData, content);
    client.send(Kind::kEnd);
    std::vector<TestFrame> frames;
    while (auto frame = client.receive()) {
      frames.push_back(std::move(*frame));
    }
    return outcome(frames);
  }
  struct stat info(const std::string& name) {
    struct stat status{};
    EXPECT_EQ(::lstat(path(name).c_str(), &status), 0) << name;
    return status;
  }
  std::string sync(const std::string& name, bool tree = false) {
    return outcome(ask(Kind::kSyncFile,
                       encode(SyncFileRequest{.path = path(name), .user = kOwner, .tree = tree})));
  }
};

TEST_F(AgentOwner, MakesFilesOfSomebodyElse) {
  EXPECT_EQ(write("dir/file", "content"), "file");
  for (const char* name : {"dir", "dir/file"}) {
    EXPECT_EQ(info(name).st_uid, 1234U) << name;
    EXPECT_EQ(info(name).st_gid, 2345U) << name;
  }
}

TEST_F(AgentOwner, HasTheRightsOfRoot) {
  ASSERT_EQ(::mkdir(path("closed").c_str(), 0), 0);
  EXPECT_EQ(write("closed/file", "content"), "file");
  EXPECT_EQ(info("closed/file").st_uid, 1234U);
  // What exists keeps its owner.
  ASSERT_EQ(::chown(path("closed/file").c_str(), 7, 8), 0);
  EXPECT_EQ(write("closed/file", "other"), "file");
  EXPECT_EQ(info("closed/file").st_uid, 7U);
}

TEST_F(AgentOwner, ATreeIsTheOwnersWhateverItSays) {
  TestClient client = connect();
  client.send(Kind::kWriteTree, encode(PathRequest{path("tree"), kOwner}));
  client.send(Kind::kTreeEntry, encode(TreeEntry{.path = "d/f", .size = 0, .uid = 5, .gid = 6}));
  client.send(Kind::kEnd);
  std::vector<TestFrame> frames;
  while (auto frame = client.receive()) {
    frames.push_back(std::move(*frame));
  }
  for (const char* name : {"tree", "tree/d", "tree/d/f"}) {
    EXPECT_EQ(info(name).st_uid, 1234U) << name;
  }
}

TEST_F(AgentOwner, AnOwnerIsTwoNumbers) {
  for (const char* user : {"owner:", "owner:1", "owner:a:b", "owner:1:2:3", "owner:-1:1"}) {
    EXPECT_EQ(outcome(ask(Kind::kStat, encode(PathRequest{"/", user}))), "bad_user") << user;
  }
}

TEST_F(AgentOwner, SyncsWhatIsThereAndWhatIsGone) {
  ASSERT_EQ(write("a/b/file", "content"), "file");
  EXPECT_EQ(sync("a/b/file"), "done");
  EXPECT_EQ(sync("a/b"), "done");
  EXPECT_EQ(sync("a", true), "done");
  EXPECT_EQ(sync("gone/since/long"), "done");
  EXPECT_EQ(sync("a/b/file/below"), "done");
  ASSERT_EQ(::symlink("/nowhere", path("dangling").c_str()), 0);
  EXPECT_EQ(sync("dangling"), "done");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(sync("fifo"), "done");
}

}  // namespace
}  // namespace atl::guest
