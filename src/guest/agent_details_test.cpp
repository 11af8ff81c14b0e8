// What clients of other dialects ask for besides: details, home directories, owners by name,
// attributes, depth, and processes that are forgotten by themselves.
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <set>
#include <thread>

#include "guest/agent_fixture.h"

namespace atl::guest {
namespace {

class AgentDetails : public AgentTest {
 protected:
  void SetUp() override {
    AgentTest::SetUp();
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
  }
  std::string write(const WriteFileRequest& request) {
    TestClient client = connect();
    client.send(Kind::kWriteFile, encode(request));
    client.send(Kind::kData, "content");
    client.send(Kind::kEnd);
    std::vector<TestFrame> frames;
    while (auto frame = client.receive()) {
      frames.push_back(std::move(*frame));
    }
    return outcome(frames);
  }
  std::vector<FileInfo> files(Kind kind, const PathRequest& request) {
    std::vector<FileInfo> infos;
    for (const auto& frame : ask(kind, encode(request))) {
      if (frame.kind == Kind::kFile) {
        infos.push_back(decode_file(frame.payload).value());
      }
    }
    return infos;
  }
};

TEST_F(AgentDetails, AttributesAndOwnersOfUploads) {
  WriteFileRequest request{.path = path("file"), .user = "owner:daemon", .take_ownership = true};
  request.attributes = {{"user.e2b.author", "me"}, {"user.e2b.empty", ""}};
  put(path("probe"), "");
  if (::setxattr(path("probe").c_str(), "user.x", "", 0, 0) != 0) {
    GTEST_SKIP() << "no extended attributes here";
  }
  ASSERT_EQ(write(request), "file");
  ASSERT_EQ(::setxattr(path("file").c_str(), "user.x", "", 0, 0), 0);
  auto infos = files(Kind::kStat, {.path = path("file"), .details = true});
  ASSERT_EQ(infos.size(), 1U);
  ASSERT_TRUE(infos[0].details);
  EXPECT_EQ(infos[0].details->owner, "daemon");
  EXPECT_EQ(infos[0].details->group, "daemon");
  std::sort(infos[0].details->attributes.begin(), infos[0].details->attributes.end());
  EXPECT_EQ(
      infos[0].details->attributes,
      (std::vector<Attribute>{{"user.e2b.author", "me"}, {"user.e2b.empty", ""}, {"user.x", ""}}));
  // The next upload replaces all of them, and the owner.
  request.user = "owner:root";
  request.attributes.clear();
  ASSERT_EQ(write(request), "file");
  infos = files(Kind::kStat, {.path = path("file"), .details = true});
  EXPECT_TRUE(infos[0].details->attributes.empty());
  EXPECT_EQ(infos[0].details->owner, "root");
  EXPECT_EQ(outcome(ask(Kind::kStat, encode(PathRequest{"/", "owner:nobody-has-this"}))),
            "user_not_found");
}

TEST_F(AgentDetails, LinksAreResolved) {
  ASSERT_EQ(::mkdir(path("directory").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("directory", path("link").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", path("dangling").c_str()), 0);
  const auto link = files(Kind::kStat, {.path = path("link"), .details = true});
  EXPECT_EQ(link.at(0).type, FileType::kSymlink);
  EXPECT_EQ(link.at(0).details->resolved_type, FileType::kDirectory);
  EXPECT_EQ(link.at(0).details->resolved_path, std::filesystem::canonical(path("directory")));
  const auto dangling = files(Kind::kStat, {.path = path("dangling"), .details = true});
  EXPECT_EQ(dangling.at(0).details->resolved_type, FileType::kOther);
  EXPECT_EQ(dangling.at(0).details->resolved_path, "");
}

TEST_F(AgentDetails, ListingsGoAsDeepAsAsked) {
  ASSERT_TRUE(std::filesystem::create_directories(path("d/one/two/three")));
  ASSERT_EQ(::symlink("one", path("d/link").c_str()), 0);
  const auto names = [this](std::uint32_t depth) {
    std::set<std::string> seen;
    for (const auto& info : files(Kind::kListDirectory, {.path = path("d"), .depth = depth})) {
      EXPECT_FALSE(info.details);
      seen.insert(info.path.substr(path("d/").size()));
    }
    return seen;
  };
  EXPECT_EQ(names(1), (std::set<std::string>{"link", "one"}));
  EXPECT_EQ(names(2), (std::set<std::string>{"link", "one", "one/two"}));
  EXPECT_EQ(names(9), (std::set<std::string>{"link", "one", "one/two", "one/two/three"}));
}

TEST_F(AgentDetails, HomeDirectories) {
  const auto home = files(Kind::kStat, {.path = "~", .user = "owner:daemon"});
  ASSERT_EQ(home.size(), 1U);
  EXPECT_EQ(home[0].path, "/usr/sbin");
  EXPECT_EQ(files(Kind::kStat, {.path = "~/../bin", .user = "daemon"}).at(0).path,
            "/usr/sbin/../bin");
  EXPECT_EQ(outcome(ask(Kind::kStat, encode(PathRequest{"~daemon", ""}))), "path_not_absolute");
}

TEST_F(AgentDetails, AProcessIsForgottenByItself) {
  SpawnRequest request = shell("pwd");
  request.cwd = "~";
  request.keep = true;
  request.forget_after_ms = 300;
  EXPECT_EQ(run(request).output, "/root\n");
  EXPECT_TRUE(list().contains("p"));
  for (int i = 0; i < 100 && list().contains("p"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
  EXPECT_FALSE(list().contains("p"));
}

}  // namespace
}  // namespace atl::guest
