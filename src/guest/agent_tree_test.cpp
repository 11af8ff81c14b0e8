// Trees, as a client sees them.
#include <fcntl.h>

#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

struct Received {
  TreeEntry entry;
  std::string content;
};
using Tree = std::map<std::string, Received>;

class AgentTree : public AgentTest {
 protected:
  void make(const std::string& name) { std::filesystem::create_directories(path(name)); }

  // Every entry with its data; the outcome of the request.
  std::pair<Tree, std::string> read(const std::string& root, const std::string& user = "") {
    Tree tree;
    const auto frames = ask(Kind::kReadTree, encode(PathRequest{root, user}));
    Received* current = nullptr;
    for (const auto& frame : frames) {
      if (frame.kind == Kind::kTreeEntry) {
        const auto entry = decode_tree_entry(frame.payload);
        EXPECT_TRUE(entry) << entry.error().message;
        if (entry) {
          current = &tree[entry->path];
          current->entry = *entry;
        }
      } else if (frame.kind == Kind::kData && current != nullptr) {
        current->content += frame.payload;
      }
    }
    for (const auto& [name, received] : tree) {
      EXPECT_EQ(received.content.size(), received.entry.size) << name;
    }
    return {tree, outcome(frames)};
  }

  struct Step {
    TreeEntry entry;
    std::string content;
  };
  static Step file(const std::string& name, const std::string& content, std::uint32_t mode = 0644) {
    return {{.path = name, .mode = mode, .size = content.size()}, content};
  }
  static Step directory(const std::string& name, std::uint32_t mode = 0755) {
    return {{.path = name, .type = FileType::kDirectory, .mode = mode}, ""};
  }
  static Step symlink(const std::string& name, const std::string& target) {
    return {{.path = name, .type = FileType::kSymlink, .mode = 0777, .link_target = target}, ""};
  }

  struct Written {
    std::string outcome;
    TreeDone done;
  };
  Written write(const std::string& root, const std::vector<Step>& steps,
                const std::string& user = "") {
    TestClient client = connect();
    client.send(Kind::kWriteTree, encode(PathRequest{root, user}));
    for (const Step& step : steps) {
      bool sent = client.send(Kind::kTreeEntry, encode(step.entry));
      for (std::size_t at = 0; sent && at < step.content.size(); at += 100000) {
        sent = client.send(Kind::kData, step.content.substr(at, 100000));
      }
      if (!sent) {
        break;
      }
    }
    client.send(Kind::kEnd);
    std::vector<TestFrame> frames;
    while (auto frame = client.receive()) {
      frames.push_back(std::move(*frame));
    }
    if (frames.size() == 1 && frames[0].kind == Kind::kTreeDone) {
      return {"done", decode_tree_done(frames[0].payload).value()};
    }
    return {outcome(frames), {}};
  }
};

TEST_F(AgentTree, EverythingComesBack) {
  make("t/a/b");
  const std::string bytes = pattern_bytes(1U << 20);
  put(path("t/a/big"), bytes);
  put(path("t/empty"), "");
  put(path("t/a/b/odd \xff\n name"), "x");
  ASSERT_EQ(::symlink("/nowhere/at/all", path("t/link").c_str()), 0);
  ASSERT_EQ(::link(path("t/a/big").c_str(), path("t/hard").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("t/fifo").c_str(), 0666), 0);
  ASSERT_EQ(::chmod(path("t/empty").c_str(), 04751), 0);
  ASSERT_EQ(::chown(path("t/a").c_str(), 12, 34), 0);
  const timespec times[2] = {{1, 2}, {1700000000, 123456789}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path("t/empty").c_str(), times, 0), 0);
  const auto [tree, result] = read(path("t"));
  EXPECT_EQ(result, "end");
  EXPECT_EQ(tree.size(), 7U);
  // Whichever name comes first has the content, the other one is a link to it.
  const bool hard_first = tree.at("hard").entry.type == FileType::kFile;
  const auto& first = tree.at(hard_first ? "hard" : "a/big");
  const auto& second = tree.at(hard_first ? "a/big" : "hard");
  EXPECT_TRUE(first.content == bytes);
  EXPECT_EQ(second.entry.type, FileType::kHardlink);
  EXPECT_EQ(second.entry.link_target, hard_first ? "hard" : "a/big");
  EXPECT_TRUE(second.content.empty());
  EXPECT_EQ(tree.at("a/b/odd \xff\n name").content, "x");
  EXPECT_EQ(tree.at("link").entry.link_target, "/nowhere/at/all");
  EXPECT_EQ(tree.at("a").entry.type, FileType::kDirectory);
  EXPECT_EQ(tree.at("a").entry.uid, 12U);
  EXPECT_EQ(tree.at("a").entry.gid, 34U);
  EXPECT_EQ(tree.at("empty").entry.mode, 04751U);
  EXPECT_EQ(tree.at("empty").entry.modified_unix_ns, 1700000000123456789);
}

TEST_F(AgentTree, AFileIsATreeOfOne) {
  put(path("f"), "content");
  ASSERT_EQ(::symlink("f", path("l").c_str()), 0);
  EXPECT_EQ(read(path("f")).first.at("f").content, "content");
  EXPECT_EQ(read(path("l")).first.at("l").content, "content");
  EXPECT_EQ(read(path("none")).second, "file_not_found");
}

TEST_F(AgentTree, ReadingObeysPermissions) {
  make("t");
  put(path("t/secret"), "x");
  ASSERT_EQ(::chmod(path("t/secret").c_str(), 0600), 0);
  EXPECT_EQ(read(path("t"), "nobody").second, "permission_denied");
  EXPECT_EQ(read(path("t")).second, "end");
  ASSERT_EQ(::chmod(path("t").c_str(), 0700), 0);
  EXPECT_EQ(read(path("t"), "nobody").second, "permission_denied");
}

TEST_F(AgentTree, KernelFilesystemsAreLeftOut) {
  make("t/proc");
  make("t/other");
  const SmallMount kernel{path("t/proc"), nullptr, "proc"};
  const SmallMount other{path("t/other"), nullptr};
  ASSERT_TRUE(kernel.mounted() && other.mounted());
  put(path("t/other/f"), "x");
  const auto [tree, result] = read(path("t"));
  EXPECT_EQ(result, "end");
  EXPECT_EQ(tree.size(), 3U);
  EXPECT_EQ(tree.at("other/f").content, "x");
}

TEST_F(AgentTree, AChangingFileHasTheSizeItsEntrySaid) {
  make("t");
  // Large enough that the worker is still sending when the file is cut.
  put(path("t/f"), std::string(8U << 20, 'x'));
  TestClient client = connect();
  client.send(Kind::kReadTree, encode(PathRequest{path("t"), ""}));
  auto frame = client.receive();
  ASSERT_TRUE(frame && frame->kind == Kind::kTreeEntry);
  ASSERT_EQ(::truncate(path("t/f").c_str(), 10), 0);
  std::string content;
  while ((frame = client.receive()) && frame->kind == Kind::kData) {
    content += frame->payload;
  }
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, Kind::kEnd);
  EXPECT_EQ(content.size(), 8U << 20);
  EXPECT_EQ(content.back(), '\0');
}

TEST_F(AgentTree, WrittenAsSent) {
  const std::string bytes = pattern_bytes(1U << 20);
  std::vector<Step> steps = {directory("d", 0500),       file("d/big", bytes, 0640),
                             file("empty", ""),          symlink("d/link", "../empty"),
                             file("no/parent/yet", "p"), directory("no", 0711)};
  steps[0].entry.modified_unix_ns = -1500000000;
  steps[1].entry.modified_unix_ns = 1700000000123456789;
  const auto written = write(path("new/root"), steps);
  EXPECT_EQ(written.outcome, "done");
  EXPECT_EQ(written.done.files, 3U);
  EXPECT_EQ(written.done.directories, 2U);
  EXPECT_EQ(written.done.symlinks, 1U);
  EXPECT_EQ(written.done.bytes, bytes.size() + 1);
  const auto [tree, result] = read(path("new/root"));
  EXPECT_EQ(tree.size(), 7U);
  EXPECT_EQ(tree.at("d").entry.mode, 0500U);
  EXPECT_EQ(tree.at("d").entry.modified_unix_ns, -1500000000);
  EXPECT_TRUE(tree.at("d/big").content == bytes);
  EXPECT_EQ(tree.at("d/big").entry.mode, 0640U);
  EXPECT_EQ(tree.at("d/big").entry.modified_unix_ns, 1700000000123456789);
  EXPECT_EQ(tree.at("d/link").entry.link_target, "../empty");
  EXPECT_EQ(tree.at("no").entry.mode, 0711U);
  EXPECT_EQ(tree.at("no/parent").entry.mode, 0755U);
}

TEST_F(AgentTree, ExistingThingsAreMergedOrReplaced) {
  make("t/d/kept");
  put(path("t/d/f"), "old");
  put(path("outside"), "untouched");
  ASSERT_EQ(::chmod(path("t/d").c_str(), 0750), 0);
  ASSERT_EQ(::symlink("../outside", path("t/link").c_str()), 0);
  EXPECT_EQ(write(path("t"), {directory("d", 0700), file("d/f", "new"), file("link", "a file now"),
                              symlink("d/g", "x"), symlink("d/g", "y")})
                .outcome,
            "done");
  const auto tree = read(path("t")).first;
  EXPECT_EQ(tree.at("d").entry.mode, 0750U);
  EXPECT_EQ(tree.at("d/f").content, "new");
  EXPECT_EQ(tree.at("link").content, "a file now");
  EXPECT_EQ(tree.at("d/g").entry.link_target, "y");
  EXPECT_EQ(tree.count("d/kept"), 1U);
  EXPECT_EQ(slurp(path("outside")), "untouched");
  EXPECT_EQ(write(path("t"), {file("d", "x")}).outcome, "path_not_file");
  EXPECT_EQ(write(path("t"), {directory("d/f")}).outcome, "path_not_directory");
  EXPECT_EQ(write(path("t"), {file("d/f/x", "x")}).outcome, "path_not_directory");
  EXPECT_EQ(write(path("outside"), {file("x", "x")}).outcome, "path_not_directory");
  EXPECT_EQ(slurp(path("t/d/f")), "new");
}

TEST_F(AgentTree, HardLinksStayBeneathTheRoot) {
  make("root");
  put(path("outside"), "secret");
  ASSERT_EQ(::symlink(path("").c_str(), path("root/way-out").c_str()), 0);
  const auto link = [](const std::string& name, const std::string& target) {
    return Step{{.path = name, .type = FileType::kHardlink, .link_target = target}, ""};
  };
  put(path("root/b"), "replaced");
  const auto written =
      write(path("root"), {file("d/a", "data"), link("b", "d/a"), link("d/c", "b")});
  EXPECT_EQ(written.outcome, "done");
  EXPECT_EQ(written.done.files, 3U);
  struct stat status{};
  ASSERT_EQ(::stat(path("root/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 3U);
  EXPECT_EQ(write(path("root"), {link("x", "way-out/outside")}).outcome, "path_escapes");
  EXPECT_EQ(write(path("root"), {link("x", "../outside")}).outcome, "path_escapes");
  EXPECT_EQ(write(path("root"), {link("x", "missing")}).outcome, "file_not_found");
  EXPECT_NE(::access(path("root/x").c_str(), F_OK), 0);
}

TEST_F(AgentTree, NothingEscapes) {
  make("outside");
  make("t");
  ASSERT_EQ(::symlink("../outside", path("t/there").c_str()), 0);
  EXPECT_EQ(write(path("t"), {file("there/f", "x")}).outcome, "path_escapes");
  EXPECT_EQ(write(path("t"), {directory("there")}).outcome, "path_escapes");
  EXPECT_EQ(write(path("t"), {symlink("out", "../outside"), file("out/f", "x")}).outcome,
            "path_escapes");
  EXPECT_EQ(write(path("t"), {symlink("up", ".."), file("up/outside/f", "x")}).outcome,
            "path_escapes");
  EXPECT_EQ(write(path("t"), {symlink("abs", path("outside")), directory("abs/d")}).outcome,
            "path_escapes");
  // Also a symlink that stays inside is not followed.
  EXPECT_EQ(
      write(path("t"), {directory("in"), symlink("alias", "in"), file("alias/f", "x")}).outcome,
      "path_escapes");
  for (const char* bad : {"../f", "/f", "a/../../f", "", ".", "a//b", "a/./b"}) {
    EXPECT_EQ(write(path("t"), {file(bad, "x")}).outcome, "path_escapes") << bad;
  }
  EXPECT_TRUE(std::filesystem::is_empty(path("outside")));
}

TEST_F(AgentTree, HardLinksStayInsideAndLoseNothing) {
  const auto hardlink = [](const std::string& name, const std::string& target) {
    return Step{{.path = name, .type = FileType::kHardlink, .link_target = target}, ""};
  };
  make("t");
  put(path("outside"), "x");
  put(path("t/old"), "old");
  const auto written = write(path("t"), {file("d/f", "content"), hardlink("g", "d/f"),
                                         hardlink("d/f", "d/f"), hardlink("old", "d/f")});
  EXPECT_EQ(written.outcome, "done");
  EXPECT_EQ(written.done.files, 4U);
  EXPECT_EQ(std::filesystem::hard_link_count(path("t/g")), 3U);
  EXPECT_EQ(slurp(path("t/old")), "content");
  EXPECT_EQ(read(path("t")).first.size(), 4U);  // no stage is left
  EXPECT_EQ(write(path("t"), {hardlink("h", "../outside")}).outcome, "path_escapes");
  EXPECT_EQ(write(path("t"), {symlink("up", ".."), hardlink("h", "up/outside")}).outcome,
            "path_escapes");
  EXPECT_EQ(write(path("t"), {hardlink("h", "none")}).outcome, "file_not_found");
  EXPECT_EQ(write(path("t"), {hardlink("d", "g")}).outcome, "path_not_file");
  EXPECT_EQ(std::filesystem::hard_link_count(path("outside")), 1U);
}

TEST_F(AgentTree, BrokenUploadsAreRefusedAndLeaveNothingHalf) {
  make("t");
  put(path("t/f"), "old");
  const auto attempt = [&](const std::vector<TestFrame>& frames) {
    TestClient client = connect();
    client.send(Kind::kWriteTree, encode(PathRequest{path("t"), ""}));
    for (const auto& frame : frames) {
      client.send(frame.kind, frame.payload);
    }
    client.send(Kind::kEnd);
    std::vector<TestFrame> answers;
    while (auto frame = client.receive()) {
      answers.push_back(std::move(*frame));
    }
    return outcome(answers);
  };
  const std::string ten = encode(TreeEntry{.path = "f", .size = 10});
  EXPECT_EQ(attempt({{Kind::kTreeEntry, ten}, {Kind::kData, "12345"}}), "malformed");
  EXPECT_EQ(attempt({{Kind::kTreeEntry, ten}, {Kind::kData, "12345678901"}}), "malformed");
  EXPECT_EQ(attempt({{Kind::kTreeEntry, ten}, {Kind::kTreeEntry, ten}}), "malformed");
  EXPECT_EQ(attempt({{Kind::kData, "x"}}), "malformed");
  EXPECT_EQ(attempt({{Kind::kStdin, "x"}}), "malformed");
  EXPECT_FALSE(attempt({{Kind::kTreeEntry, "garbage"}}).empty());
  {
    TestClient client = connect();
    client.send(Kind::kWriteTree, encode(PathRequest{path("t"), ""}));
    client.send(Kind::kTreeEntry, ten);
    client.send(Kind::kData, "123");
  }
  // The worker of the client that went away removes its stage.
  for (int i = 0; i < 6000; ++i) {
    if (std::distance(std::filesystem::directory_iterator{path("t")}, {}) == 1) {
      break;
    }
    ::usleep(10000);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{path("t")}, {}), 1);
  EXPECT_EQ(slurp(path("t/f")), "old");
}

TEST_F(AgentTree, OwnersAndSetIdBitsAreForRootOnly) {
  make("t");
  ASSERT_EQ(::chmod(path("t").c_str(), 0777), 0);
  Step owned = file("root", "x", 06755);
  owned.entry.uid = 12;
  owned.entry.gid = 34;
  Step plain = directory("dir", 02755);
  EXPECT_EQ(write(path("t"), {owned, plain}).outcome, "done");
  auto tree = read(path("t")).first;
  EXPECT_EQ(tree.at("root").entry.uid, 12U);
  EXPECT_EQ(tree.at("root").entry.gid, 34U);
  EXPECT_EQ(tree.at("root").entry.mode, 06755U);
  EXPECT_EQ(tree.at("dir").entry.mode, 02755U);
  EXPECT_EQ(tree.at("dir").entry.uid, 0U);
  owned.entry.path = "user";
  plain.entry.path = "userdir";
  // A directory that its owner may not enter still takes its content.
  EXPECT_EQ(
      write(path("t"), {owned, plain, directory("closed", 0), file("closed/f", "x")}, "nobody")
          .outcome,
      "done");
  tree = read(path("t")).first;
  EXPECT_EQ(tree.at("user").entry.uid, 65534U);
  EXPECT_EQ(tree.at("user").entry.mode, 0755U);
  EXPECT_EQ(tree.at("userdir").entry.mode, 0755U);
  EXPECT_EQ(tree.at("closed").entry.mode, 0U);
  EXPECT_EQ(tree.at("closed/f").content, "x");
  ASSERT_EQ(::chmod(path("t").c_str(), 0755), 0);
  EXPECT_EQ(write(path("t"), {file("no", "x")}, "nobody").outcome, "permission_denied");
  EXPECT_EQ(write(path("new"), {file("no", "x")}, "nobody").outcome, "permission_denied");
}

TEST_F(AgentTree, DepthIsBounded) {
  std::string deep = "d";
  for (std::size_t i = 1; i < kMaxTreeDepth; ++i) {
    deep += "/d";
  }
  EXPECT_EQ(write(path("t"), {directory(deep)}).outcome, "done");
  EXPECT_EQ(read(path("t")).first.size(), kMaxTreeDepth);
  EXPECT_EQ(write(path("t"), {directory(deep + "/d")}).outcome, "path_escapes");
  ASSERT_EQ(::mkdir(path("t/" + deep + "/more").c_str(), 0755), 0);
  EXPECT_EQ(read(path("t")).second, "tree_too_deep");
}

}  // namespace
}  // namespace atl::guest
