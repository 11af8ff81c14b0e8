// Comparing stacks of trees, as a client sees it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/strings.h"
#include "guest/agent_fixture.h"

namespace atl::guest {
namespace {

struct Told {
  Change change;
  std::string content;
};

class AgentDiff : public AgentTest {
 protected:
  void make(const std::string& name) {
    std::filesystem::create_directories(path(name));
    set_time(name);
  }
  // Files made for one test are of one time, so that only what is meant to differ does.
  void set_time(const std::string& name, std::int64_t seconds = 1000) const {
    const timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(name).c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << name;
  }
  void file(const std::string& name, std::string_view content) {
    std::filesystem::create_directories(std::filesystem::path{path(name)}.parent_path());
    put(path(name), content);
    set_time(name);
  }
  void whiteout(const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path{path(name)}.parent_path());
    ASSERT_EQ(::mknod(path(name).c_str(), S_IFCHR, makedev(0, 0)), 0);
  }
  void mark_opaque(const std::string& name, const char* mark) {
    ASSERT_EQ(::setxattr(path(name).c_str(), "user.overlay.opaque", mark, 1, 0), 0);
  }

  std::vector<std::string> all(std::initializer_list<const char*> names) {
    std::vector<std::string> paths;
    for (const char* name : names) {
      make(name);
      paths.push_back(path(name));
    }
    return paths;
  }

  std::pair<std::vector<Told>, std::string> compare(std::initializer_list<const char*> from,
                                                    std::initializer_list<const char*> to,
                                                    bool contents = false) {
    const auto frames = ask(
        Kind::kDiff, encode(DiffRequest{.from = all(from), .to = all(to), .contents = contents}));
    std::vector<Told> told;
    for (const auto& frame : frames) {
      if (frame.kind == Kind::kChange) {
        auto change = decode_change(frame.payload);
        EXPECT_TRUE(change) << change.error().message;
        told.push_back({change.value_or(Change{}), ""});
      } else if (frame.kind == Kind::kData && !told.empty()) {
        told.back().content += frame.payload;
      }
    }
    return {told, outcome(frames)};
  }

  // "+a ~b -c =d" in the order they came.
  std::string summary(std::initializer_list<const char*> from,
                      std::initializer_list<const char*> to, bool contents = false) {
    const auto [told, how] = compare(from, to, contents);
    std::string text;
    for (const Told& one : told) {
      text += concat(text.empty() ? "" : " ",
                     std::string(1, " +~-="[static_cast<int>(one.change.change)]),
                     one.change.entry.path);
    }
    return how == "end" ? text : how;
  }
};

TEST_F(AgentDiff, TellsWhatAnUpperMadeOfItsLayers) {
  file("low/kept", "x");
  file("low/gone", "x");
  file("low/d/old", "x");
  file("up/d/new", "y");
  file("up/kept", "xx");
  whiteout("up/gone");
  whiteout("up/never");
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "+d/new -gone ~kept");
  EXPECT_EQ(summary({"up", "low"}, {"low"}), "-d/new +gone ~kept");
  EXPECT_EQ(summary({}, {"up", "low"}), "+d +d/new +d/old +kept");
}

TEST_F(AgentDiff, WhatIsTheSameIsNoChange) {
  file("low/a", "content");
  file("up/a", "content");
  file("low/d/b", "x");
  file("up/d/b", "x");
  for (const char* directory : {"low/d", "up/d"}) {
    set_time(directory);
  }
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "");
  EXPECT_EQ(summary({"low"}, {"low"}), "");
  set_time("up/d", 2000);
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "");
  EXPECT_EQ(summary({"low"}, {"up", "low"}, true), "=d");
  set_time("up/a", 2000);
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "~a");
}

TEST_F(AgentDiff, ContentIsCompared) {
  const std::string bytes = pattern_bytes(600'000);
  std::string other = bytes;
  other[599'999] ^= 1;
  file("low/a", bytes);
  file("low/b", bytes);
  file("up/a", other);
  file("up/b", bytes);
  // A long file with little in it: only what is there is read.
  for (const char* name : {"low/hole", "up/hole"}) {
    file(name, "x");
    ASSERT_EQ(::truncate(path(name).c_str(), 1LL << 40), 0);
    set_time(name);
  }
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "~a");
}

TEST_F(AgentDiff, ModesAttributesAndNamesCount) {
  for (const char* tree : {"low/", "up/"}) {
    for (const char* name : {"mode", "attribute", "names", "own"}) {
      file(concat(tree, name), "x");
    }
  }
  ASSERT_EQ(::chmod(path("up/mode").c_str(), 0600), 0);
  ASSERT_EQ(::setxattr(path("up/attribute").c_str(), "user.a", "1", 1, 0), 0);
  ASSERT_EQ(::setxattr(path("up/own").c_str(), "user.overlay.origin", "1", 1, 0), 0);
  ASSERT_EQ(::link(path("up/names").c_str(), path("up/second").c_str()), 0);
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "~attribute ~mode ~names +second");
  const auto [told, how] = compare({"low"}, {"up", "low"}, true);
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told[0].change.entry.attributes, (std::vector<Attribute>{{"user.a", "1"}}));
  EXPECT_EQ(told[1].change.old_mode, 0644U);
  EXPECT_EQ(told[3].change.entry.type, FileType::kHardlink);
  EXPECT_EQ(told[3].change.entry.link_target, "names");
}

TEST_F(AgentDiff, NamesOfOneFileComeTogether) {
  file("low/a", "x");
  ASSERT_EQ(::link(path("low/a").c_str(), path("low/b").c_str()), 0);
  // Copied up as one of them, then linked to another name: as many names as before.
  file("up/b", "x");
  ASSERT_EQ(::link(path("up/b").c_str(), path("up/c").c_str()), 0);
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "+c");
  const auto [told, how] = compare({"low"}, {"up", "low"}, true);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].change.change, ChangeType::kKept);
  EXPECT_EQ(told[0].content, "x");
  EXPECT_EQ(told[1].change.entry.link_target, "b");
}

TEST_F(AgentDiff, DirectoriesHideOrJoinWhatIsBelow) {
  file("low/d/a", "a");
  file("low/d/sub/b", "b");
  file("low/e/c", "c");
  file("up/d/a", "a");
  file("up/e/.keep", "");
  mark_opaque("up/d", "y");
  whiteout("up/e/c");
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "-d/sub +e/.keep -e/c");
  // Names marked by an attribute are whiteouts only where the directory says so.
  file("up/x/m", "");
  file("low/x/m", "m");
  ASSERT_EQ(::setxattr(path("up/x/m").c_str(), "user.overlay.whiteout", "", 0, 0), 0);
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "-d/sub +e/.keep -e/c ~x/m");
  mark_opaque("up/x", "x");
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "-d/sub +e/.keep -e/c -x/m");
}

TEST_F(AgentDiff, TypesChange) {
  file("low/a/in", "x");
  file("low/b", "x");
  file("up/a", "now a file");
  file("up/b/in", "now a directory");
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "~a ~b +b/in");
  const auto [told, how] = compare({"low"}, {"up", "low"});
  EXPECT_EQ(told[0].change.old_type, FileType::kDirectory);
  EXPECT_EQ(told[1].change.old_size, 1U);
}

TEST_F(AgentDiff, UppersOnTheSameLayersAreComparedWithEachOther) {
  file("low/a", "a");
  file("low/b", "b");
  file("one/a", "1");
  whiteout("two/b");
  file("two/c", "c");
  EXPECT_EQ(summary({"one", "low"}, {"two", "low"}), "~a -b +c");
  EXPECT_EQ(summary({"one", "low"}, {"one", "low"}), "");
}

TEST_F(AgentDiff, ContentsComeWithTheirDirectories) {
  file("low/d/e/a", "old");
  file("low/d/e/same", "same");
  file("up/d/e/a", "new");
  ASSERT_EQ(::mkfifo(path("up/d/pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("/etc/passwd", path("up/d/link").c_str()), 0);
  for (const char* name : {"low/d/e", "up/d/e", "low/d", "up/d"}) {
    set_time(name);
  }
  const auto [told, how] = compare({"low"}, {"up", "low"}, true);
  ASSERT_EQ(how, "end");
  ASSERT_EQ(told.size(), 5U);
  EXPECT_EQ(told[0].change.entry.path, "d");
  EXPECT_EQ(told[0].change.change, ChangeType::kKept);
  EXPECT_EQ(told[1].change.change, ChangeType::kKept);
  EXPECT_EQ(told[2].content, "new");
  EXPECT_EQ(told[3].change.entry.link_target, "/etc/passwd");
  EXPECT_EQ(told[4].change.entry.type, FileType::kFifo);
}

TEST_F(AgentDiff, LinksAreNeverFollowed) {
  make("low");
  make("up");
  file("secret/word", "x");
  ASSERT_EQ(::symlink(path("secret").c_str(), path("up/out").c_str()), 0);
  file("low/out/word", "y");
  EXPECT_EQ(summary({"low"}, {"up", "low"}), "~out");
  EXPECT_EQ(summary({}, {"up"}, true), "+out");
}

TEST_F(AgentDiff, WhatIsTooDeepIsAnErrorAndNotAHole) {
  make("up");
  ASSERT_EQ(::chdir(path("up").c_str()), 0);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(::mkdir("d", 0755), 0);
    ASSERT_EQ(::chdir("d"), 0);
  }
  ASSERT_EQ(::chdir("/"), 0);
  EXPECT_NE(summary({}, {"up"}).find("tree_too_deep"), std::string::npos);
}

TEST_F(AgentDiff, OddNamesAreNames) {
  file("up/a\nb", "");
  file("up/\xff\xfe", "");
  file("up/ü", "");
  EXPECT_EQ(summary({}, {"up"}), "+a\nb +ü +\xff\xfe");
}

}  // namespace
}  // namespace atl::guest
