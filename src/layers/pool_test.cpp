// One suite of behaviours, run over every backend: what the rooms above may rely on.
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/names.h"
#include "layers/pool_fixture.h"

namespace atl::layers {
namespace {

class PoolTest : public PlacedPoolFixture {
 protected:
  Result<> add(const std::string& id, const std::string& text) {
    return pool_->add_layer(id, [&](const std::string& directory) -> Result<> {
      write_text(directory + "/file", text);
      return {};
    });
  }

  // Where deleting takes time it is done in the background, and nothing announces its end.
  void wait_for_empty_trash() {
    const auto root = std::filesystem::path{pool_->upper_path("x")}.parent_path().parent_path();
    for (int i = 0; i < 2000 && !std::filesystem::is_empty(root / "trash"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    EXPECT_TRUE(std::filesystem::is_empty(root / "trash"));
  }

  // Runs `body` in a child that gets its own pool, waits for its first word, kills it.
  template <class Body>
  void run_and_kill(const Body& body) {
    ASSERT_TRUE(pool_->close());
    pool_.reset();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto opened = open_pool(options());
      if (!opened) {
        ::_exit(1);
      }
      body(**opened, [&] {
        (void)!::write(ends[1], "x", 1);
        ::pause();
      });
      ::_exit(2);
    }
    ::close(ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1) << "the child ended too early";
    ::close(ends[0]);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    open();
  }
};

TEST_P(PoolTest, BackendIsWhatThePlaceGives) {
  const auto status = pool_->status();
  ASSERT_TRUE(status);
  const bool btrfs = place_ == Place::kLoop || place_ == Place::kDirect;
  EXPECT_EQ(status->backend == Backend::kBtrfs, btrfs);
  if (place_ == Place::kReflink) {
    EXPECT_EQ(status->backend, Backend::kReflink);
  }
  EXPECT_EQ(status->quota, btrfs);
  EXPECT_GT(status->total_bytes, 0U);
  EXPECT_GT(status->free_bytes, 0U);
  EXPECT_LE(status->free_bytes, status->total_bytes);
}

TEST_P(PoolTest, LayerAppearsWhole) {
  ASSERT_TRUE(add("base-1", "hello"));
  EXPECT_TRUE(pool_->has_layer("base-1"));
  EXPECT_EQ(read_text(pool_->layer_path("base-1") + "/file"), "hello");
  EXPECT_EQ(*pool_->list_layers(), std::vector<std::string>{"base-1"});
  const auto again = add("base-1", "other");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_EQ(read_text(pool_->layer_path("base-1") + "/file"), "hello");
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_EQ(read_text(pool_->layer_path("base-1") + "/file"), "hello");
}

TEST_P(PoolTest, TwoFillersOfOneLayerGiveOneLayer) {
  const auto outer = pool_->add_layer("x", [&](const std::string& directory) -> Result<> {
    write_text(directory + "/file", "outer");
    return add("x", "inner");
  });
  ASSERT_FALSE(outer);
  EXPECT_EQ(outer.error().code, Code::kAlreadyExists);
  EXPECT_EQ(read_text(pool_->layer_path("x") + "/file"), "inner");
  EXPECT_EQ(pool_->list_layers()->size(), 1U);
}

TEST_P(PoolTest, FailedFillLeavesNothing) {
  const auto added = pool_->add_layer("broken", [](const std::string& directory) -> Result<> {
    write_text(directory + "/half", "x");
    return fail(Code::kUnavailable, "the network went away");
  });
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message, "the network went away");
  EXPECT_FALSE(pool_->has_layer("broken"));
  EXPECT_TRUE(pool_->list_layers()->empty());
  ASSERT_TRUE(add("broken", "now whole"));
}

TEST_P(PoolTest, KilledFillIsCollected) {
  ASSERT_NO_FATAL_FAILURE(run_and_kill([](Pool& pool, const auto& wait) {
    (void)pool.add_layer("victim", [&](const std::string& directory) -> Result<> {
      write_text(directory + "/half", "x");
      wait();
      return {};
    });
  }));
  EXPECT_FALSE(pool_->has_layer("victim"));
  EXPECT_TRUE(pool_->list_layers()->empty());
  const auto done = pool_->collect();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_FALSE(done->empty());
  EXPECT_TRUE(done->front().starts_with("removed half-made layer victim")) << done->front();
  wait_for_empty_trash();
  EXPECT_TRUE(pool_->collect()->empty()) << "a second collection finds nothing";
}

TEST_P(PoolTest, AKilledDeletionGoesOn) {
  ASSERT_TRUE(pool_->create_upper("kept", 0));
  write_text(pool_->upper_path("kept") + "/upper/file", "x");
  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(run_and_kill([](Pool& pool, const auto& wait) {
      (void)pool.create_upper("victim", 0);
      for (int i = 0; i < 3000; ++i) {
        const std::string directory = concat(pool.upper_path("victim"), "/upper/d", i % 50);
        std::filesystem::create_directory(directory);
        write_text(concat(directory, "/f", i), "x");
      }
      (void)pool.remove_upper("victim");
      wait();
    }));
  }
  EXPECT_FALSE(pool_->has_upper("victim"));
  ASSERT_TRUE(pool_->collect());
  wait_for_empty_trash();
  EXPECT_TRUE(std::filesystem::exists(pool_->upper_path("kept") + "/upper/file"));
}

TEST_P(PoolTest, KilledProcessLosesNothingItHadMade) {
  ASSERT_NO_FATAL_FAILURE(run_and_kill([](Pool& pool, const auto& wait) {
    const auto upper = pool.create_upper("alive", 0);
    write_text(*upper + "/upper/note", "still here");
    wait();
  }));
  ASSERT_TRUE(pool_->has_upper("alive"));
  EXPECT_EQ(read_text(pool_->upper_path("alive") + "/upper/note"), "still here");
  ASSERT_TRUE(pool_->close());
  EXPECT_FALSE(is_mounted_below(options().directory));
  EXPECT_EQ(loop_devices_of(options().directory), 0);
}

TEST_P(PoolTest, UpperHoldsUpperAndWork) {
  const mode_t before = ::umask(077);
  const auto path = pool_->create_upper("sb-1", 0);
  ::umask(before);
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, pool_->upper_path("sb-1"));
  for (const char* name : {"/upper", "/work"}) {
    struct stat info{};
    ASSERT_EQ(::stat((*path + name).c_str(), &info), 0);
    EXPECT_TRUE(S_ISDIR(info.st_mode));
    EXPECT_EQ(info.st_mode & 07777, 0755U);
    EXPECT_EQ(info.st_uid, 0U);
  }
  const auto again = pool_->create_upper("sb-1", 0);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_EQ(*pool_->list_uppers(), std::vector<std::string>{"sb-1"});
}

TEST_P(PoolTest, UsageFollowsWrites) {
  ASSERT_TRUE(pool_->create_upper("sb", 0));
  const auto before = pool_->upper_usage("sb");
  ASSERT_TRUE(before) << before.error().message;
  write_text(pool_->upper_path("sb") + "/upper/data", std::string(8 << 20, 'x'));
  const auto after = pool_->upper_usage("sb");
  ASSERT_TRUE(after);
  EXPECT_GE(after->used_bytes, before->used_bytes + (8 << 20));
  EXPECT_EQ(after->limit_bytes, 0U);
  EXPECT_EQ(pool_->upper_usage("none").error().code, Code::kNotFound);
}

TEST_P(PoolTest, RemovalOfManyFiles) {
  ASSERT_TRUE(pool_->create_upper("sb", 0));
  for (int i = 0; i < 2000; ++i) {
    const std::string directory = concat(pool_->upper_path("sb"), "/upper/d", i % 20);
    std::filesystem::create_directory(directory);
    write_text(concat(directory, "/f", i), "x");
  }
  ASSERT_TRUE(pool_->remove_upper("sb"));
  EXPECT_FALSE(pool_->has_upper("sb"));
  EXPECT_TRUE(pool_->list_uppers()->empty());
  ASSERT_TRUE(pool_->remove_upper("sb")) << "removal is idempotent";
  ASSERT_TRUE(pool_->create_upper("sb", 0)) << "the name is free at once";
  EXPECT_TRUE(std::filesystem::is_empty(pool_->upper_path("sb") + "/upper"));
  const auto collected = pool_->collect();
  ASSERT_TRUE(collected);
  wait_for_empty_trash();
}

TEST_P(PoolTest, RemovedLayerIsGone) {
  ASSERT_TRUE(add("old", "x"));
  ASSERT_TRUE(pool_->remove_layer("old"));
  EXPECT_FALSE(pool_->has_layer("old"));
  ASSERT_TRUE(pool_->remove_layer("old"));
  ASSERT_TRUE(pool_->remove_layer("never-was"));
}

TEST_P(PoolTest, OthersOnTheHostCannotReachIn) {
  ASSERT_TRUE(add("base", "x"));
  const std::filesystem::path layers =
      std::filesystem::path{pool_->layer_path("base")}.parent_path();
  for (const auto& path :
       {layers, layers.parent_path(), layers.parent_path() / "uppers",
        layers.parent_path() / "trash", std::filesystem::path{options().directory}}) {
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700U) << path;
  }
}

TEST_P(PoolTest, HostileNamesAreRefused) {
  const std::vector<std::string> names{"",
                                       ".",
                                       "..",
                                       "../x",
                                       "a/b",
                                       "/etc",
                                       ".new-x",
                                       "UPPER",
                                       "a b",
                                       "a\n",
                                       "é",
                                       "a\\b",
                                       std::string("a\0b", 3),
                                       std::string(129, 'a')};
  for (const std::string& name : names) {
    EXPECT_EQ(add(name, "x").error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(pool_->create_upper(name, 0).error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(pool_->remove_upper(name).error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(pool_->remove_layer(name).error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(pool_->upper_usage(name).error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(pool_->set_upper_limit(name, 0).error().code, Code::kInvalidArgument) << name;
    EXPECT_FALSE(pool_->has_layer(name)) << name;
    EXPECT_FALSE(pool_->has_upper(name)) << name;
  }
  EXPECT_TRUE(is_valid_name(std::string(128, 'a')));
  EXPECT_TRUE(is_valid_name("default-0a1b.2_c"));
}

TEST_P(PoolTest, OneProcessAtATime) {
  const auto second = open_pool(options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kFailedPrecondition);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
}

TEST_P(PoolTest, CloseLeavesNothingBehind) {
  ASSERT_TRUE(pool_->create_upper("sb", 0));
  const auto closed = pool_->close();
  ASSERT_TRUE(closed) << closed.error().message;
  EXPECT_FALSE(is_mounted_below(options().directory));
  EXPECT_EQ(loop_devices_of(options().directory), 0);
  ASSERT_TRUE(pool_->close()) << "closing twice is harmless";
}

TEST_P(PoolTest, AnUpperBecomesALayer) {
  const auto upper = pool_->create_upper("build", 0);
  ASSERT_TRUE(upper);
  std::filesystem::create_directories(*upper + "/upper/upper/work");
  std::filesystem::create_directories(*upper + "/work/work");
  write_text(*upper + "/upper/upper/work/deep", "x");
  write_text(*upper + "/upper/work", "a file with the name of ours");
  ASSERT_EQ(::chmod((*upper + "/upper").c_str(), 0711), 0);
  ASSERT_EQ(::chown((*upper + "/upper").c_str(), 7, 8), 0);
  ASSERT_TRUE(pool_->commit_upper("build", "made"));
  EXPECT_FALSE(pool_->has_upper("build"));
  ASSERT_TRUE(pool_->has_layer("made"));
  const std::string layer = pool_->layer_path("made");
  EXPECT_EQ(read_text(layer + "/upper/work/deep"), "x");
  EXPECT_EQ(read_text(layer + "/work"), "a file with the name of ours");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{layer}, {}), 2);
  struct stat info{};
  ASSERT_EQ(::stat(layer.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0711U);
  EXPECT_EQ(info.st_uid, 7U);
  EXPECT_EQ(info.st_gid, 8U);
  ASSERT_TRUE(pool_->remove_layer("made"));
  EXPECT_FALSE(pool_->has_layer("made"));
}

TEST_P(PoolTest, ALayerIsNotReplacedByAnUpper) {
  ASSERT_TRUE(add("made", "old"));
  ASSERT_TRUE(pool_->create_upper("build", 0));
  const auto committed = pool_->commit_upper("build", "made");
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kAlreadyExists);
  EXPECT_TRUE(pool_->has_upper("build"));
  EXPECT_EQ(read_text(pool_->layer_path("made") + "/file"), "old");
  EXPECT_FALSE(pool_->commit_upper("missing", "other"));
  EXPECT_FALSE(pool_->has_layer("other"));
  EXPECT_FALSE(pool_->commit_upper("build", "../x"));
}

// Makes a file that cannot be moved, for as long as it lives.
class Immovable {
 public:
  explicit Immovable(const std::string& path) {
    write_text(path, "b");
    fd_ = Fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    set(FS_IMMUTABLE_FL);
  }
  ~Immovable() { set(0); }
  Immovable(const Immovable&) = delete;
  Immovable& operator=(const Immovable&) = delete;

 private:
  void set(int flag) {
    int flags = 0;
    EXPECT_EQ(::ioctl(fd_.get(), FS_IOC_GETFLAGS, &flags), 0);
    flags = (flags & ~FS_IMMUTABLE_FL) | flag;
    EXPECT_EQ(::ioctl(fd_.get(), FS_IOC_SETFLAGS, &flags), 0);
  }
  Fd fd_;
};

TEST_P(PoolTest, ACommitThatFailsHalfwayGivesTheUpperBack) {
  const auto upper = pool_->create_upper("build", 32U << 20);
  ASSERT_TRUE(upper) << upper.error().message;
  for (const char* name : {"/upper/a", "/upper/upper", "/upper/z"}) {
    write_text(*upper + name, name);
  }
  {
    const Immovable stuck{*upper + "/upper/b"};
    ASSERT_FALSE(pool_->commit_upper("build", "made"));
    EXPECT_FALSE(pool_->has_layer("made"));
    ASSERT_TRUE(pool_->has_upper("build"));
    for (const char* name : {"/upper/a", "/upper/upper", "/upper/z"}) {
      EXPECT_EQ(read_text(*upper + name), name);
    }
    EXPECT_TRUE(std::filesystem::is_directory(*upper + "/work"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator{*upper}, {}), 2);
    if (pool_->status()->quota) {
      EXPECT_EQ(pool_->upper_usage("build")->limit_bytes, 32U << 20);
    }
  }
  EXPECT_TRUE(pool_->commit_upper("build", "made"));
  EXPECT_EQ(read_text(pool_->layer_path("made") + "/upper"), "/upper/upper");
}

TEST_P(PoolTest, ACommitThatFailsAtTheEndGivesTheUpperBack) {
  const auto upper = pool_->create_upper("build", 0);
  ASSERT_TRUE(upper) << upper.error().message;
  write_text(*upper + "/upper/a", "a");
  ASSERT_EQ(::chmod((*upper + "/upper").c_str(), 0711), 0);
  ASSERT_EQ(::chown((*upper + "/upper").c_str(), 7, 8), 0);
  const std::string in_the_way = pool_->layer_path("made");
  write_text(in_the_way, "not a layer");
  ASSERT_FALSE(pool_->commit_upper("build", "made"));
  ASSERT_TRUE(pool_->has_upper("build"));
  EXPECT_EQ(read_text(*upper + "/upper/a"), "a");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{*upper}, {}), 2);
  struct stat info{};
  ASSERT_EQ(::stat((*upper + "/upper").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0711U);
  EXPECT_EQ(info.st_uid, 7U);
  ASSERT_EQ(::stat(upper->c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
  ASSERT_EQ(::unlink(in_the_way.c_str()), 0);
  EXPECT_TRUE(pool_->commit_upper("build", "made"));
}

INSTANTIATE_TEST_SUITE_P(Places, PoolTest,
                         ::testing::Values(Place::kLoop, Place::kDirect, Place::kReflink,
                                           Place::kPlain),
                         place_name);

}  // namespace
}  // namespace atl::layers
