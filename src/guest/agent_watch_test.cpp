// Watching files, as a client sees it.
#include <fcntl.h>

#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentWatch : public AgentTest {
 protected:
  void make(const std::string& name) { std::filesystem::create_directories(path(name)); }
  // One change. Writing a file anew is two, emptying it and filling it, and the watcher sees one
  // or two of them, depending on when it looks.
  void append(const std::string& file, const std::string& content) {
    const Fd fd{::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
    ASSERT_TRUE(write_all(fd.get(), content));
  }

  TestClient watch(const std::string& target, bool recursive = false,
                   const std::string& user = "") {
    TestClient client = connect();
    client.send(Kind::kWatch, encode(WatchRequest{target, user, recursive}));
    const auto frame = client.receive();
    EXPECT_TRUE(frame && frame->kind == Kind::kWatching)
        << (frame && frame->kind == Kind::kError ? decode_error(frame->payload).message : "");
    return client;
  }
  std::string refusal(const std::string& target, bool recursive = false,
                      const std::string& user = "") {
    return outcome(ask(Kind::kWatch, encode(WatchRequest{target, user, recursive})));
  }

  // "create a" and so on, with paths relative to `base`.
  std::string next(TestClient& client, const std::string& base) {
    const auto frame = client.receive();
    if (!frame || frame->kind != Kind::kFileEvent) {
      return frame ? "frame " + std::to_string(static_cast<int>(frame->kind)) : "closed";
    }
    const auto event = decode_file_event(frame->payload).value();
    const char* names[] = {"?", "create", "write", "remove", "rename", "chmod", "overflow"};
    const std::string relative =
        event.path.starts_with(base + "/") ? event.path.substr(base.size() + 1) : event.path;
    return std::string{names[static_cast<int>(event.event)]} + " " + relative;
  }
  // Everything up to the creation of `last`.
  std::vector<std::string> until(TestClient& client, const std::string& base,
                                 const std::string& last) {
    std::vector<std::string> events;
    for (;;) {
      events.push_back(next(client, base));
      if (events.back() == "create " + last || events.back() == "closed" ||
          events.back().starts_with("frame")) {
        return events;
      }
    }
  }
  using Events = std::vector<std::string>;
};

TEST_F(AgentWatch, OneDirectory) {
  make("w/old");
  put(path("w/f"), "x");
  TestClient client = watch(path("w") + "/");
  put(path("w/new"), "hello");
  make("w/dir");
  put(path("w/old/deep"), "not reported");
  put(path("w/dir/deep"), "not reported either");
  ASSERT_EQ(::chmod(path("w/f").c_str(), 0600), 0);
  ASSERT_EQ(::rename(path("w/f").c_str(), path("w/g").c_str()), 0);
  ASSERT_EQ(::unlink(path("w/g").c_str()), 0);
  put(path("w/end"), "");
  EXPECT_EQ(until(client, path("w"), "end"),
            (Events{"create new", "write new", "create dir", "chmod f", "rename f", "create g",
                    "remove g", "create end"}));
}

TEST_F(AgentWatch, RecursiveSeesOldAndNewDirectories) {
  make("w/a/b");
  TestClient client = watch(path("w"), true);
  put(path("w/a/b/f"), "x");
  EXPECT_EQ(next(client, path("w")), "create a/b/f");
  EXPECT_EQ(next(client, path("w")), "write a/b/f");
  make("w/n");
  EXPECT_EQ(next(client, path("w")), "create n");
  put(path("w/n/f"), "");
  EXPECT_EQ(next(client, path("w")), "create n/f");
  ASSERT_EQ(::chmod(path("w/n").c_str(), 0700), 0);
  EXPECT_EQ(next(client, path("w")), "chmod n");  // once, not also from the directory itself
  std::filesystem::remove_all(path("w/n"));
  EXPECT_EQ(next(client, path("w")), "remove n/f");
  EXPECT_EQ(next(client, path("w")), "remove n");
}

TEST_F(AgentWatch, NothingCreatedInNewDirectoriesIsLostOrDoubled) {
  make("w");
  TestClient client = watch(path("w"), true);
  const auto made = run(shell("cd " + path("w") +
                              "; for i in 1 2 3 4 5 6 7 8 9 10; do mkdir -p d$i/e/f;"
                              "for j in 1 2 3 4 5; do : >d$i/e/f/$j; done; done; : >end"));
  ASSERT_TRUE(made.exit);
  std::map<std::string, int> seen;
  for (const auto& event : until(client, path("w"), "end")) {
    ++seen[event];
  }
  for (int i = 1; i <= 10; ++i) {
    const std::string top = "create d" + std::to_string(i);
    for (const char* below : {"", "/e", "/e/f", "/e/f/1", "/e/f/2", "/e/f/3", "/e/f/4", "/e/f/5"}) {
      EXPECT_EQ(seen[top + below], 1) << top << below;
    }
  }
}

TEST_F(AgentWatch, DirectoriesThatMove) {
  make("w/a/x");
  make("out/b/y");
  TestClient client = watch(path("w"), true);
  ASSERT_EQ(::rename(path("w/a").c_str(), path("w/c").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "rename a");
  EXPECT_EQ(next(client, path("w")), "create c");
  EXPECT_EQ(next(client, path("w")), "create c/x");
  put(path("w/c/x/f"), "");
  EXPECT_EQ(next(client, path("w")), "create c/x/f");
  ASSERT_EQ(::rename(path("w/c").c_str(), path("out/c").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "rename c");
  put(path("out/c/x/g"), "not reported");
  ASSERT_EQ(::rename(path("out/b").c_str(), path("w/b").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "create b");
  EXPECT_EQ(next(client, path("w")), "create b/y");
  put(path("w/b/y/h"), "");
  EXPECT_EQ(next(client, path("w")), "create b/y/h");
}

TEST_F(AgentWatch, AFileAlsoWhenItIsReplaced) {
  make("w");
  put(path("w/f"), "x");
  TestClient client = watch(path("w/f"));
  put(path("w/other"), "not reported");
  append(path("w/f"), "changed");
  EXPECT_EQ(next(client, path("w")), "write f");
  put(path("w/tmp"), "new");
  ASSERT_EQ(::rename(path("w/tmp").c_str(), path("w/f").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "create f");
  ASSERT_EQ(::unlink(path("w/f").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "remove f");
  put(path("w/f"), "");
  EXPECT_EQ(next(client, path("w")), "create f");
}

TEST_F(AgentWatch, TheRootItself) {
  make("w/d");
  TestClient client = watch(path("w/d"), true);
  ASSERT_EQ(::chmod(path("w/d").c_str(), 0700), 0);
  EXPECT_EQ(next(client, path("w")), "chmod d");
  ASSERT_EQ(::rmdir(path("w/d").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "remove d");
}

TEST_F(AgentWatch, ThroughASymlinkUnderTheNameAskedFor) {
  make("w/real");
  ASSERT_EQ(::symlink("real", path("w/link").c_str()), 0);
  TestClient client = watch(path("w/link"), true);
  make("w/real/d");
  EXPECT_EQ(next(client, path("w")), "create link/d");
  // A symlink below is not followed.
  make("elsewhere");
  ASSERT_EQ(::symlink(path("elsewhere").c_str(), path("w/real/away").c_str()), 0);
  EXPECT_EQ(next(client, path("w")), "create link/away");
  put(path("elsewhere/f"), "");
  EXPECT_TRUE(client.silent(200));
}

TEST_F(AgentWatch, Refusals) {
  EXPECT_EQ(refusal(path("none")), "file_not_found");
  EXPECT_EQ(refusal(path("none"), true), "file_not_found");
  make("w");
  ASSERT_EQ(::chmod(path("w").c_str(), 0700), 0);
  EXPECT_EQ(refusal(path("w"), false, "nobody"), "permission_denied");
  EXPECT_EQ(refusal(path("w"), false, "no-such-user"), "user_not_found");
}

TEST_F(AgentWatch, AsAnotherUser) {
  make("w/open");
  make("w/closed");
  ASSERT_EQ(::chmod(path("w/closed").c_str(), 0700), 0);
  TestClient client = watch(path("w"), true, "nobody");
  put(path("w/closed/secret"), "x");
  put(path("w/open/f"), "");
  EXPECT_EQ(next(client, path("w")), "create open/f");
  // What becomes readable later is watched from then on.
  ASSERT_EQ(::chmod(path("w/closed").c_str(), 0755), 0);
  EXPECT_EQ(next(client, path("w")), "chmod closed");
  EXPECT_EQ(next(client, path("w")), "create closed/secret");
  put(path("w/closed/more"), "");
  EXPECT_EQ(next(client, path("w")), "create closed/more");
}

TEST_F(AgentWatch, TooManyDirectoriesAreAnErrorNotAGap) {
  make("w");
  const SmallMount memory{path("w"), nullptr};
  ASSERT_TRUE(memory.mounted());
  for (std::size_t i = 0; i < kMaxWatches; ++i) {
    ASSERT_EQ(::mkdir(path("w/" + std::to_string(i)).c_str(), 0755), 0);
  }
  EXPECT_EQ(refusal(path("w"), true), "too_many_watches");
  ASSERT_EQ(::rmdir(path("w/0").c_str()), 0);
  TestClient client = watch(path("w"), true);
  make("w/again");
  EXPECT_EQ(outcome([&] {
              std::vector<TestFrame> frames;
              while (auto frame = client.receive()) {
                frames.push_back(std::move(*frame));
              }
              return frames;
            }()),
            "too_many_watches");
}

TEST_F(AgentWatch, ALostQueueIsReportedAndWatchingGoesOn) {
  std::ifstream in{"/proc/sys/fs/inotify/max_queued_events"};
  std::size_t limit = 0;
  in >> limit;
  if (limit == 0 || limit > 100000) {
    GTEST_SKIP() << "the kernel's queue is too long to fill";
  }
  make("w");
  const SmallMount memory{path("w"), nullptr};
  ASSERT_TRUE(memory.mounted());
  TestClient client = watch(path("w"), true);
  // Nobody reads: the socket fills, then the queue. Names differ, so nothing is merged.
  const auto made =
      run(shell("cd " + path("w") + "; i=0; while [ $i -lt " + std::to_string(limit + 30000) +
                " ]; do : >f$i; i=$((i+1)); done; mkdir late"));
  ASSERT_TRUE(made.exit);
  std::string event;
  do {
    event = next(client, path("w"));
  } while (event.starts_with("create f"));
  EXPECT_EQ(event, "overflow " + path("w"));
  put(path("w/late/f"), "");  // in a directory whose creation was lost
  do {
    event = next(client, path("w"));
  } while (event.starts_with("create f") || event == "create late");
  EXPECT_EQ(event, "create late/f");
}

TEST_F(AgentWatch, WorkersEndWithTheirClients) {
  make("w");
  {
    TestClient one = watch(path("w"), true);
    TestClient two = watch(path("w"));
    EXPECT_EQ(children(), 2U);
    one.stop_sending();  // not gone, only silent
    put(path("w/f"), "");
    EXPECT_EQ(next(one, path("w")), "create f");
  }
  for (int i = 0; i < 6000 && children() > 0; ++i) {
    ::usleep(10000);
  }
  EXPECT_EQ(children(), 0U);
}

TEST_F(AgentWatch, WatchesAreBoundedAndKeepNoOtherRequestOut) {
  make("w");
  std::vector<TestClient> clients;
  for (std::size_t i = 0; i < kMaxWatchers; ++i) {
    clients.push_back(watch(path("w")));
  }
  EXPECT_EQ(refusal(path("w")), "resource_exhausted");
  EXPECT_EQ(outcome(ask(Kind::kStat, encode(PathRequest{path("w"), ""}))), "file");
}

}  // namespace
}  // namespace atl::guest
