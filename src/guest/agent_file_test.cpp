// Files: every operation through the agent, as a client sees it.
#include "guest/agent_fixture.h"
#include "guest/limits.h"
#include "guest/wire_passing.h"

namespace atl::guest {
namespace {

class AgentFile : public AgentTest {
 protected:
  struct ReadResult {
    std::optional<FileInfo> info;
    std::string content;
    std::string outcome;
  };

  ReadResult read(const ReadFileRequest& request) {
    ReadResult result;
    const auto frames = ask(Kind::kReadFile, encode(request));
    for (const auto& frame : frames) {
      if (frame.kind == Kind::kFile) {
        result.info = decode_file(frame.payload).value();
      } else if (frame.kind == Kind::kData) {
        result.content += frame.payload;
      }
    }
    result.outcome = outcome(frames);
    return result;
  }

  std::string write(const WriteFileRequest& request, std::string_view content) {
    TestClient client = connect();
    client.send(Kind::kWriteFile, encode(request));
    for (std::size_t at = 0; at < content.size(); at += 100000) {
      if (!client.send(Kind::kData, content.substr(at, 100000))) {
        break;
      }
    }
    client.send(Kind::kEnd);
    std::vector<TestFrame> frames;
    while (auto frame = client.receive()) {
      frames.push_back(std::move(*frame));
    }
    return outcome(frames);
  }

  std::string remove(const RemoveRequest& request) {
    return outcome(ask(Kind::kRemove, encode(request)));
  }
  std::string move(const MoveRequest& request) {
    return outcome(ask(Kind::kMove, encode(request)));
  }
  FileInfo stat(const std::string& file) {
    const auto frames = ask(Kind::kStat, encode(PathRequest{file, ""}));
    EXPECT_EQ(outcome(frames), "file") << file;
    return frames.empty() ? FileInfo{} : decode_file(frames[0].payload).value();
  }
  std::size_t entries(const std::string& directory) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator{directory}, {}));
  }
};

TEST_F(AgentFile, WriteThenReadBack) {
  const std::string bytes = pattern_bytes(64U << 20);
  EXPECT_EQ(write({.path = path("a/b/file"), .mode = 0640}, bytes), "file");
  const auto info = stat(path("a/b/file"));
  EXPECT_EQ(info.size, bytes.size());
  EXPECT_EQ(info.mode, 0640U);
  EXPECT_EQ(info.name, "file");
  EXPECT_EQ(info.path, path("a/b/file"));
  EXPECT_EQ(info.type, FileType::kFile);
  EXPECT_EQ(stat(path("a")).mode, 0755U);
  const auto result = read({.path = path("a/b/file")});
  EXPECT_EQ(result.outcome, "end");
  EXPECT_TRUE(result.content == bytes);
  EXPECT_EQ(result.info->size, bytes.size());
}

TEST_F(AgentFile, RangesAreExact) {
  const std::string bytes = pattern_bytes(200000);
  put(path("f"), bytes);
  struct Range {
    std::uint64_t offset;
    std::uint64_t length;
  };
  for (const auto& [offset, length] :
       {Range{0, 0}, Range{0, 1}, Range{5, 100000}, Range{199999, 10}, Range{200000, 5},
        Range{900000, 5}, Range{70000, UINT64_MAX}}) {
    const auto result = read({.path = path("f"), .offset = offset, .length = length});
    EXPECT_EQ(result.outcome, "end");
    const std::string expected = offset >= bytes.size() ? "" : bytes.substr(offset, length);
    EXPECT_TRUE(result.content == expected) << offset << " " << length;
  }
  EXPECT_EQ(read({.path = path("f"), .offset = UINT64_MAX}).outcome, "bad_offset");
}

TEST_F(AgentFile, ALargeFileIsPassedWhenThatIsAskedFor) {
  const std::string bytes = pattern_bytes(kLeastPassedBytes + 100);
  put(path("large"), bytes);
  TestClient client = connect();
  client.send(Kind::kReadFile,
              encode(ReadFileRequest{.path = path("large"), .length = with_passing(UINT64_MAX)}));
  const auto frame = client.receive();
  ASSERT_TRUE(frame && frame->kind == Kind::kFile);
  EXPECT_EQ(decode_file(frame->payload)->size, bytes.size());
  const Fd file = client.take_passed();
  ASSERT_TRUE(file);
  EXPECT_EQ(::fcntl(file.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  std::string read(bytes.size(), '\0');
  EXPECT_EQ(::pread(file.get(), read.data(), read.size(), 0), static_cast<ssize_t>(read.size()));
  EXPECT_TRUE(read == bytes);
  // It stays for as long as the file is read, and says nothing more.
  EXPECT_TRUE(client.silent(50));
}

TEST_F(AgentFile, OnlyWhatIsWorthItIsPassed) {
  const std::string bytes = pattern_bytes(kLeastPassedBytes + 100);
  put(path("large"), bytes);
  put(path("small"), bytes.substr(0, kLeastPassedBytes - 1));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0666), 0);
  const auto ask_passing = [this](std::string file, std::uint64_t offset, std::uint64_t length) {
    return read({.path = std::move(file), .offset = offset, .length = with_passing(length)});
  };
  EXPECT_TRUE(ask_passing(path("small"), 0, UINT64_MAX).content ==
              bytes.substr(0, kLeastPassedBytes - 1));
  EXPECT_TRUE(ask_passing(path("large"), 101, UINT64_MAX).content == bytes.substr(101));
  EXPECT_TRUE(ask_passing(path("large"), 5, 1000).content == bytes.substr(5, 1000));
  EXPECT_EQ(ask_passing(path("large"), bytes.size(), 1).content, "");
  EXPECT_FALSE(ask_passing("/proc/version", 0, UINT64_MAX).content.empty());
  EXPECT_EQ(ask_passing(path("fifo"), 0, UINT64_MAX).outcome, "path_not_file");
  EXPECT_EQ(ask_passing(path("none"), 0, UINT64_MAX).outcome, "file_not_found");
}

TEST_F(AgentFile, FilesWithoutASizeAreReadToo) {
  const auto result = read({.path = "/proc/version"});
  EXPECT_EQ(result.outcome, "end");
  EXPECT_NE(result.content.find("Linux"), std::string::npos);
}

TEST_F(AgentFile, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0666), 0);
  EXPECT_EQ(read({.path = path("fifo")}).outcome, "path_not_file");
  EXPECT_EQ(read({.path = "/dev/zero"}).outcome, "path_not_file");
  EXPECT_EQ(read({.path = directory_}).outcome, "path_not_file");
  EXPECT_EQ(read({.path = socket_path()}).outcome, "path_not_file");
  EXPECT_EQ(read({.path = path("none")}).outcome, "file_not_found");
  EXPECT_EQ(write({.path = path("fifo")}, "x"), "path_not_file");
  EXPECT_EQ(write({.path = directory_}, "x"), "path_not_file");
  EXPECT_EQ(write({.path = path("new/")}, "x"), "path_not_file");
}

TEST_F(AgentFile, ReplacingKeepsModeAndOwner) {
  put(path("f"), "old");
  ASSERT_EQ(::chown(path("f").c_str(), 65534, 1234), 0);
  ASSERT_EQ(::chmod(path("f").c_str(), 0751), 0);
  EXPECT_EQ(write({.path = path("f"), .mode = 0600}, "new"), "file");
  EXPECT_EQ(slurp(path("f")), "new");
  const auto info = stat(path("f"));
  EXPECT_EQ(info.mode, 0751U);
  EXPECT_EQ(info.uid, 65534U);
  EXPECT_EQ(info.gid, 1234U);
}

TEST_F(AgentFile, AWriteCanDependOnWhatIsThere) {
  EXPECT_EQ(write({.path = path("w/f"), .only_new = true}, "one"), "file");
  EXPECT_EQ(write({.path = path("w/f"), .only_new = true}, "two"), "precondition_failed");
  const FileInfo first = stat(path("w/f"));
  const FileVersion version{first.inode, first.size, first.changed_unix_ns};
  EXPECT_EQ(write({.path = path("w/f"), .only_version = version}, "two"), "file");
  EXPECT_EQ(write({.path = path("w/f"), .only_version = version}, "six"), "precondition_failed");
  EXPECT_EQ(read({.path = path("w/f")}).content, "two");
  EXPECT_EQ(write({.path = path("w/none"), .only_version = version}, "x"), "precondition_failed");
  EXPECT_EQ(entries(path("w")), 1U);  // nothing staged is left
  const FileInfo before = stat(path("w/f"));
  ASSERT_EQ(::chmod(path("w/f").c_str(), 0600), 0);
  EXPECT_NE(stat(path("w/f")).changed_unix_ns, before.changed_unix_ns);
}

TEST_F(AgentFile, AnInterruptedWriteLeavesTheOldFile) {
  ASSERT_EQ(::mkdir(path("d").c_str(), 0755), 0);
  put(path("d/f"), "old");
  TestClient client = connect();
  client.send(Kind::kWriteFile, encode(WriteFileRequest{.path = path("d/f")}));
  client.send(Kind::kData, std::string(200000, 'n'));
  while (entries(path("d")) < 2) {
    ::usleep(1000);  // until the stage exists
  }
  EXPECT_EQ(slurp(path("d/f")), "old");
  client.close();
  while (entries(path("d")) > 1) {
    ::usleep(1000);  // until it is gone again
  }
  EXPECT_EQ(slurp(path("d/f")), "old");
}

TEST_F(AgentFile, SymlinksAreFollowedLikeOpenDoes) {
  ASSERT_EQ(::mkdir(path("d").c_str(), 0755), 0);
  put(path("d/target"), "old");
  ASSERT_EQ(::symlink("d/target", path("link").c_str()), 0);
  ASSERT_EQ(::symlink("link", path("link2").c_str()), 0);
  ASSERT_EQ(::symlink("d/created", path("dangling").c_str()), 0);
  ASSERT_EQ(::symlink("loop", path("loop").c_str()), 0);
  EXPECT_EQ(write({.path = path("link2")}, "new"), "file");
  EXPECT_EQ(slurp(path("d/target")), "new");
  EXPECT_EQ(stat(path("link2")).type, FileType::kSymlink);
  EXPECT_EQ(stat(path("link2")).link_target, "link");
  EXPECT_EQ(write({.path = path("dangling")}, "made"), "file");
  EXPECT_EQ(slurp(path("d/created")), "made");
  EXPECT_EQ(read({.path = path("link2")}).content, "new");
  EXPECT_EQ(write({.path = path("loop")}, "x"), "too_many_symlinks");
  EXPECT_EQ(read({.path = path("loop")}).outcome, "too_many_symlinks");
}

TEST_F(AgentFile, PermissionsAreTheUsers) {
  ASSERT_EQ(::mkdir(path("private").c_str(), 0700), 0);
  put(path("private/f"), "secret");
  put(path("readable"), "text");
  ASSERT_EQ(::mkdir(path("open").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(path("open").c_str(), 0777), 0);
  put(path("open/roots"), "root's");
  ASSERT_EQ(::chmod(path("open/roots").c_str(), 0644), 0);
  const std::string nobody = "nobody";
  EXPECT_EQ(read({.path = path("private/f"), .user = nobody}).outcome, "permission_denied");
  EXPECT_EQ(read({.path = path("readable"), .user = nobody}).content, "text");
  EXPECT_EQ(write({.path = path("new"), .user = nobody}, "x"), "permission_denied");
  // A writable directory would allow replacing a file the user may not write.
  EXPECT_EQ(write({.path = path("open/roots"), .user = nobody}, "x"), "permission_denied");
  EXPECT_EQ(slurp(path("open/roots")), "root's");
  EXPECT_EQ(write({.path = path("open/deep/er/mine"), .user = nobody}, "x"), "file");
  EXPECT_EQ(stat(path("open/deep/er/mine")).uid, 65534U);
  EXPECT_EQ(stat(path("open/deep")).uid, 65534U);
  EXPECT_EQ(remove({.path = path("readable"), .user = nobody}), "permission_denied");
  EXPECT_EQ(
      outcome(ask(Kind::kChangeMode, encode(ChangeModeRequest{path("readable"), nobody, 0777}))),
      "permission_denied");
  EXPECT_EQ(outcome(ask(Kind::kListDirectory, encode(PathRequest{path("private"), nobody}))),
            "permission_denied");
  EXPECT_EQ(read({.path = path("readable"), .user = "no-such"}).outcome, "user_not_found");
}

TEST_F(AgentFile, AWritableFileInAClosedDirectoryIsWrittenInPlace) {
  put(path("f"), "old and longer");
  ASSERT_EQ(::chmod(path("f").c_str(), 0666), 0);
  EXPECT_EQ(write({.path = path("f"), .user = "nobody"}, "new"), "file");
  EXPECT_EQ(slurp(path("f")), "new");
  EXPECT_EQ(stat(path("f")).uid, 0U);
}

TEST_F(AgentFile, ARefusedUploadStillGetsItsAnswer) {
  EXPECT_EQ(write({.path = path("none/f"), .make_parents = false}, std::string(3U << 20, 'x')),
            "file_not_found");
}

TEST_F(AgentFile, ListStreamsEverything) {
  ASSERT_EQ(::mkdir(path("many").c_str(), 0755), 0);
  for (int i = 0; i < 5000; ++i) {
    put(path("many/f" + std::to_string(i)), "");
  }
  ASSERT_EQ(::symlink("nowhere", path("many/link").c_str()), 0);
  put(path("many/\xff\n"), "odd");
  const auto frames = ask(Kind::kListDirectory, encode(PathRequest{path("many/"), ""}));
  EXPECT_EQ(outcome(frames), "end");
  EXPECT_EQ(frames.size(), 5003U);
  bool odd = false;
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    const auto info = decode_file(frames[i].payload);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->path, path("many/") + info->name);
    odd = odd || info->name == "\xff\n";
    if (info->name == "link") {
      EXPECT_EQ(info->link_target, "nowhere");
    }
  }
  EXPECT_TRUE(odd);
  EXPECT_EQ(outcome(ask(Kind::kListDirectory, encode(PathRequest{path("many/f1"), ""}))),
            "path_not_directory");
  EXPECT_EQ(outcome(ask(Kind::kListDirectory, encode(PathRequest{path("none"), ""}))),
            "file_not_found");
  EXPECT_EQ(stat("/").name, "/");
}

TEST_F(AgentFile, MakeDirectory) {
  const auto make = [this](const std::string& directory, std::uint32_t mode, bool parents) {
    return outcome(
        ask(Kind::kMakeDirectory, encode(MakeDirectoryRequest{directory, "", mode, parents})));
  };
  put(path("file"), "");
  EXPECT_EQ(make(path("d"), 0701, false), "done");
  EXPECT_EQ(stat(path("d")).mode, 0701U);
  EXPECT_EQ(make(path("d"), 0755, false), "path_exists");
  EXPECT_EQ(make(path("d"), 0755, true), "done");
  EXPECT_EQ(make(path("x/y/z"), 0755, false), "file_not_found");
  EXPECT_EQ(make(path("x/y/z"), 0700, true), "done");
  EXPECT_EQ(stat(path("x/y")).mode, 0755U);
  EXPECT_EQ(stat(path("x/y/z")).mode, 0700U);
  EXPECT_EQ(make(path("file"), 0755, true), "path_exists");
  EXPECT_EQ(make(path("file/sub"), 0755, true), "path_not_directory");
  EXPECT_EQ(make("/", 0755, true), "done");
}

TEST_F(AgentFile, MoveWithinAndAcrossFilesystems) {
  put(path("a"), "content");
  EXPECT_EQ(move({path("a"), path("n/e/w"), "", true}), "done");
  EXPECT_EQ(slurp(path("n/e/w")), "content");
  EXPECT_EQ(move({path("a"), path("b"), "", true}), "file_not_found");
  EXPECT_EQ(move({path("n"), path("n/e/inside"), "", true}), "bad_path");
  EXPECT_EQ(move({path("n"), path("m/x"), "", false}), "file_not_found");
  ASSERT_EQ(::mkdir(path("full").c_str(), 0755), 0);
  put(path("full/x"), "");
  EXPECT_EQ(move({path("n"), path("full"), "", true}), "directory_not_empty");

  ASSERT_EQ(::mkdir(path("mnt").c_str(), 0755), 0);
  const SmallMount mount{path("mnt"), "size=8m"};
  if (!mount.mounted()) {
    GTEST_SKIP() << "cannot mount a second filesystem here";
  }
  ASSERT_EQ(::chmod(path("n/e/w").c_str(), 0604), 0);
  ASSERT_EQ(::symlink("e/w", path("n/link").c_str()), 0);
  EXPECT_EQ(move({path("n"), path("mnt/n"), "", true}), "done");
  EXPECT_EQ(slurp(path("mnt/n/e/w")), "content");
  EXPECT_EQ(slurp(path("mnt/n/link")), "content");
  EXPECT_EQ(stat(path("mnt/n/e/w")).mode, 0604U);
  EXPECT_NE(::access(path("n").c_str(), F_OK), 0);
  EXPECT_EQ(entries(path("mnt")), 1U);

  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(move({path("fifo"), path("mnt/fifo"), "", true}), "path_other_filesystem");
  EXPECT_EQ(entries(path("mnt")), 1U);
  // Removing does not cross into the mount either.
  const std::string removed = remove({.path = path("mnt")});
  EXPECT_TRUE(removed == "path_other_filesystem" || removed == "path_busy") << removed;
  EXPECT_EQ(slurp(path("mnt/n/e/w")), "content");
}

TEST_F(AgentFile, RemoveIsRecursiveAndNeverFollows) {
  ASSERT_EQ(::mkdir(path("victim").c_str(), 0755), 0);
  put(path("victim/keep"), "");
  std::filesystem::create_directories(path("tree/a/b/c"));
  put(path("tree/a/f"), "");
  ASSERT_EQ(::symlink("../victim", path("tree/link").c_str()), 0);
  ASSERT_EQ(::symlink("victim", path("toplink").c_str()), 0);
  EXPECT_EQ(remove({.path = path("tree"), .recursive = false}), "directory_not_empty");
  EXPECT_EQ(remove({.path = path("tree")}), "done");
  EXPECT_NE(::access(path("tree").c_str(), F_OK), 0);
  EXPECT_EQ(remove({.path = path("toplink/")}), "done");
  EXPECT_EQ(::access(path("victim/keep").c_str(), F_OK), 0);
  EXPECT_EQ(remove({.path = path("tree")}), "done");
  EXPECT_EQ(remove({.path = path("tree"), .missing_ok = false}), "file_not_found");
  for (const char* root : {"/", "//", "/.", "/tmp/..", "/../"}) {
    EXPECT_EQ(remove({.path = root}), "bad_path") << root;
  }
  EXPECT_EQ(remove({.path = path("victim/.")}), "bad_path");
  EXPECT_EQ(::access(path("victim/keep").c_str(), F_OK), 0);
}

TEST_F(AgentFile, VeryDeepTreesAreRemoved) {
  // Deeper than PATH_MAX, descriptors and a recursion would bear.
  ASSERT_EQ(::mkdir(path("deep").c_str(), 0755), 0);
  Fd at{::open(path("deep").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "level", 0755), 0);
    at = Fd{::openat(at.get(), "level", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    ASSERT_TRUE(at);
  }
  at.reset();
  EXPECT_EQ(remove({.path = path("deep")}), "done");
  EXPECT_NE(::access(path("deep").c_str(), F_OK), 0);
}

TEST_F(AgentFile, ChangeMode) {
  put(path("f"), "");
  EXPECT_EQ(outcome(ask(Kind::kChangeMode, encode(ChangeModeRequest{path("f"), "", 04711}))),
            "done");
  EXPECT_EQ(stat(path("f")).mode, 04711U);
  EXPECT_EQ(outcome(ask(Kind::kChangeMode, encode(ChangeModeRequest{path("no"), "", 0711}))),
            "file_not_found");
}

TEST_F(AgentFile, AFullDiskIsReportedAndLeavesNothing) {
  ASSERT_EQ(::mkdir(path("mnt").c_str(), 0755), 0);
  const SmallMount mount{path("mnt"), "size=1m"};
  if (!mount.mounted()) {
    GTEST_SKIP() << "cannot mount a small filesystem here";
  }
  EXPECT_EQ(write({.path = path("mnt/big")}, std::string(3U << 20, 'x')), "no_space");
  EXPECT_EQ(entries(path("mnt")), 0U);
}

}  // namespace
}  // namespace atl::guest
