// The Runtime contract against the real backend: real namespaces, cgroups and overlays.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/namespaces/cgroup_hierarchy.h"
#include "runtime/test_guest.h"

namespace atl::runtime::testing {
namespace {

namespace fs = std::filesystem;
using namespaces::CgroupMount;

PROBE(ping) {
  return "pong " + std::to_string(::getppid());
}

PROBE(who) {
  char name[256] = {};
  ::gethostname(name, sizeof name);
  std::ifstream file{"/etc/hostname"};
  std::string line;
  std::getline(file, line);
  return concat(name, " ", line, " ", ::getuid());
}

std::string first_line(const char* path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

PROBE(machine) {
  return first_line("/etc/machine-id");
}

PROBE(boot) {
  return first_line("/proc/sys/kernel/random/boot_id");
}

PROBE(name_file) {
  return first_line("/etc/hostname");
}

PROBE(rename) {
  std::ofstream{"/etc/hostname"} << "mine\n";
  return "done";
}

// What a cell could leave behind on the host.
struct Leftovers {
  std::size_t mounts = 0;
  std::size_t fds = 0;
  std::set<std::string> namespaces;
  std::vector<std::string> cgroups;

  bool operator==(const Leftovers&) const = default;
};

std::size_t count_entries(const std::string& path) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{path}, fs::directory_iterator{}));
}

std::vector<std::string> find_cgroups(const std::string& instance) {
  std::vector<std::string> found;
  const auto mounts = namespaces::find_cgroup_mounts();
  for (const CgroupMount& mount : mounts.value_or(std::vector<CgroupMount>{})) {
    std::error_code error;
    const fs::path place = concat(mount.path, "/atoll-", instance);
    for (const auto& entry : fs::directory_iterator{place, error}) {
      if (entry.is_directory()) {
        found.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

// Namespaces of processes that descend from this one.
std::set<std::string> own_namespaces() {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator{"/proc/self/task"}) {
    std::ifstream children{entry.path() / "children"};
    std::string pid;
    while (children >> pid) {
      std::error_code error;
      found.insert(fs::read_symlink(concat("/proc/", pid, "/ns/net"), error));
    }
  }
  return found;
}

Leftovers take_leftovers(const std::string& instance) {
  const auto mounts = read_file("/proc/self/mountinfo", 16U << 20);
  return {.mounts = split(mounts.value_or(""), '\n').size(),
          .fds = count_entries("/proc/self/fd"),
          .namespaces = own_namespaces(),
          .cgroups = find_cgroups(instance)};
}

using RuntimeTest = CellFixture;

TEST_F(RuntimeTest, CreatedCellAnswersAsItself) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "ping"), "pong 1");
  EXPECT_EQ(ask("one", "who"), "box-one box-one 0");
}

TEST_F(RuntimeTest, ADiskKeepsItsIdentityAndAnotherCellOnItGetsItsOwn) {
  CellSpec spec = make_spec("one");
  auto cell = create(spec);
  ASSERT_TRUE(cell) << cell.error().message;
  const std::string machine = ask("one", "machine");
  const std::string boot = ask("one", "boot");
  EXPECT_EQ(machine.size(), 32U);
  EXPECT_EQ(boot.size(), 36U);
  EXPECT_NE(boot, first_line("/proc/sys/kernel/random/boot_id")) << "not the host's";
  EXPECT_EQ(ask("one", "rename"), "done");
  destroy(cell->record);

  CellSpec again = make_spec("one");
  again.upper_dir = spec.upper_dir;
  cell = create(again);
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "machine"), machine);
  EXPECT_NE(ask("one", "boot"), boot) << "another start";
  EXPECT_EQ(ask("one", "name_file"), "mine") << "what its owner changed stays";
  destroy(cell->record);

  CellSpec other = make_spec("two");
  other.upper_dir = spec.upper_dir;
  cell = create(other);
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_NE(ask("two", "machine"), machine);
  EXPECT_EQ(ask("two", "name_file"), "box-two");
}

TEST_F(RuntimeTest, CreateAndDestroyLeaveNothing) {
  const Leftovers before = take_leftovers(instance());
  for (int i = 0; i < 10; ++i) {
    const CellSpec spec = make_spec(concat("c", i));
    const auto cell = create(spec);
    ASSERT_TRUE(cell) << cell.error().message;
    destroy(cell->record);
  }
  EXPECT_EQ(before, take_leftovers(instance()));
  EXPECT_TRUE(runtime().list()->empty());
}

TEST_F(RuntimeTest, DestroyIsIdempotentAndKnowsNoStrangers) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  destroy(cell->record);
  destroy(cell->record);
  destroy({"never-made", 0, 0});
  // A record that names a process outside the cell must not kill it.
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto stat = read_file(concat("/proc/", stranger, "/stat"));
  ASSERT_TRUE(stat);
  const std::string behind_name = stat->substr(stat->rfind(')') + 2);
  const auto fields = split(behind_name, ' ');
  destroy({"one", stranger, *parse_u64(fields[19])});
  EXPECT_EQ(::waitpid(stranger, nullptr, WNOHANG), 0);
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
}

TEST_F(RuntimeTest, FailuresSayWhyAndLeaveNothing) {
  const CellSpec good = make_spec("one");
  fs::create_directories(directory() + "/linked");
  fs::create_symlink("/etc", directory() + "/linked/dev");
  fs::create_directories(directory() + "/not-a-directory");
  std::ofstream{directory() + "/not-a-directory/proc"} << "";
  fs::create_directories(directory() + "/bare");
  const struct {
    const char* says;
    std::function<void(CellSpec&)> spoil;
  } cases[] = {
      {"cell id", [](CellSpec& s) { s.id = "../x"; }},
      {"cell id", [](CellSpec& s) { s.id = ""; }},
      {"host name", [](CellSpec& s) { s.hostname = "-x"; }},
      {"1 to 64 layers", [](CellSpec& s) { s.lower_dirs.clear(); }},
      {"1 to 64 layers", [](CellSpec& s) { s.lower_dirs.assign(65, "/x"); }},
      {"absolute", [](CellSpec& s) { s.lower_dirs = {"x"}; }},
      {"uid_base", [](CellSpec& s) { s.uid_base = 1000; }},
      {"uid_base", [](CellSpec& s) { s.uid_base = 0xFFFFFFF0; }},
      {"absolute", [](CellSpec& s) { s.guest_socket = "relative"; }},
      {"memory limit", [](CellSpec& s) { s.limits.memory_bytes = 1; }},
      {"opening layer directory", [](CellSpec& s) { s.lower_dirs = {"/nowhere/at/all"}; }},
      {"opening layer directory", [](CellSpec& s) { s.upper_dir = "/nowhere/at/all"; }},
      {"cannot be id-mapped", [](CellSpec& s) { s.lower_dirs = {"/proc"}; }},
      {"mounting the overlay", [&](CellSpec& s) { s.upper_dir = directory() + "/bare"; }},
      {"building /dev",
       [&](CellSpec& s) { s.lower_dirs = {directory() + "/linked", s.lower_dirs[0]}; }},
      {"mounting /proc",
       [&](CellSpec& s) { s.lower_dirs = {directory() + "/not-a-directory", s.lower_dirs[0]}; }},
  };
  const Leftovers before = take_leftovers(instance());
  for (const auto& each : cases) {
    CellSpec spec = good;
    each.spoil(spec);
    const auto cell = create(spec);
    ASSERT_FALSE(cell) << each.says;
    EXPECT_TRUE(cell.error().message.contains(each.says)) << cell.error().message;
    // What was there before may have gone meanwhile, in the background; more must not be there.
    const Leftovers after = take_leftovers(instance());
    EXPECT_LE(after.mounts, before.mounts) << each.says;
    EXPECT_LE(after.fds, before.fds) << each.says;
    EXPECT_EQ(after.namespaces, before.namespaces) << each.says;
    EXPECT_EQ(after.cgroups, before.cgroups) << each.says;
  }
  EXPECT_TRUE(create(good));
}

// Stands for a full quota: overlayfs cannot make anything in its work directory.
TEST_F(RuntimeTest, AReadOnlyRootIsAnError) {
  const CellSpec spec = make_spec("one");
  const Fd work{::open((spec.upper_dir + "/work").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  int flags = 0;
  if (::ioctl(work.get(), FS_IOC_GETFLAGS, &flags) != 0) {
    GTEST_SKIP() << "this file system has no immutable directories";
  }
  int immutable = flags | FS_IMMUTABLE_FL;
  ASSERT_EQ(::ioctl(work.get(), FS_IOC_SETFLAGS, &immutable), 0) << std::strerror(errno);
  const auto cell = create(spec);
  EXPECT_EQ(::ioctl(work.get(), FS_IOC_SETFLAGS, &flags), 0);
  ASSERT_FALSE(cell);
  EXPECT_EQ(cell.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(cell.error().message.contains("over its quota")) << cell.error().message;
  EXPECT_TRUE(runtime().list()->empty());
}

TEST_F(RuntimeTest, AnUnusableGuestIsAnError) {
  std::ofstream{directory() + "/nonsense"} << "this is no program";
  NamespacesOptions other = options();
  other.guest_binary = directory() + "/nonsense";
  other.instance += "x";
  auto opened = open_namespaces_runtime(other);
  ASSERT_TRUE(opened);
  const auto cell = (*opened)->create(make_spec("one"));
  ASSERT_FALSE(cell);
  EXPECT_TRUE(cell.error().message.contains("starting the guest")) << cell.error().message;
  EXPECT_TRUE((*opened)->list()->empty());
  EXPECT_TRUE((*opened)->close());
  reopen();  // closing removed the stage that both used
}

TEST_F(RuntimeTest, AnIdIsUsedOnce) {
  ASSERT_TRUE(create("one"));
  const auto again = runtime().create(make_spec("one"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists) << again.error().message;
  EXPECT_EQ(runtime().list().value(), std::vector<std::string>{"one"});
}

TEST_F(RuntimeTest, ADeadGuestShowsOnThePidfd) {
  const auto cell = create("one");
  ASSERT_TRUE(cell);
  ASSERT_EQ(::kill(cell->record.pid, SIGKILL), 0);
  pollfd waiting{cell->pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 10'000), 1);
  EXPECT_EQ(runtime().adopt(cell->record).error().code, Code::kNotFound);
  EXPECT_EQ(runtime().list()->size(), 1U);  // its cgroup is still there
  destroy(cell->record);
  EXPECT_TRUE(runtime().list()->empty());
}

// The creator is a process of its own that is gone when we adopt.
TEST_F(RuntimeTest, CellsOutliveTheirCreator) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const CellSpec spec = make_spec("one");
  const pid_t creator = ::fork();
  if (creator == 0) {
    auto cell = runtime().create(spec);
    const CellRecord record = cell ? cell->record : CellRecord{};
    const std::uint64_t facts[2] = {static_cast<std::uint64_t>(record.pid), record.start_time};
    [[maybe_unused]] const auto wrote = ::write(ends[1], facts, sizeof facts);
    ::_exit(0);
  }
  std::uint64_t facts[2] = {};
  ASSERT_EQ(::read(ends[0], facts, sizeof facts), static_cast<ssize_t>(sizeof facts));
  ::waitpid(creator, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  reopen();
  const CellRecord record{"one", static_cast<int>(facts[0]), facts[1]};
  const auto cell = runtime().adopt(record);
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "ping"), "pong 1");
  EXPECT_EQ(runtime().adopt({"one", record.pid, record.start_time + 1}).error().code,
            Code::kNotFound);
  EXPECT_EQ(runtime().adopt({"two", record.pid, record.start_time}).error().code, Code::kNotFound);
  EXPECT_EQ(runtime().list().value(), std::vector<std::string>{"one"});
  destroy({"one", 0, 0});  // even without the record: what a half-done create leaves
  EXPECT_TRUE(runtime().list()->empty());
  EXPECT_EQ(runtime().adopt(record).error().code, Code::kNotFound);
}

// The node is killed at many moments of a create; what is left must be found by id alone.
TEST_F(RuntimeTest, ACreateCutShortIsCleanedUp) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us: we see them all
  const CellSpec spec = make_spec("one");
  for (int round = 0; round < 40; ++round) {
    const pid_t creator = ::fork();
    if (creator == 0) {
      [[maybe_unused]] const auto cell = runtime().create(spec);
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds{round * 100});
    ::kill(creator, SIGKILL);
    ASSERT_EQ(::waitpid(creator, nullptr, 0), creator);
    destroy({"one", 0, 0});
    EXPECT_TRUE(runtime().list()->empty());
    while (::waitpid(-1, nullptr, __WALL) > 0) {  // hangs here if a cell survived
    }
    EXPECT_EQ(errno, ECHILD);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_TRUE(create(spec));
}

TEST_F(RuntimeTest, CellsAreMadeAtOnceFromManyThreads) {
  constexpr int kThreads = 8;
  std::vector<CellSpec> specs;
  for (int i = 0; i < kThreads; ++i) {
    specs.push_back(make_spec(concat("c", i)));
  }
  const Leftovers before = take_leftovers(instance());
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) {
        auto cell = runtime().create(specs[static_cast<std::size_t>(i)]);
        auto gone = cell ? runtime().destroy(cell->record) : Result<>{};
        if (!cell || !gone) {
          failures[static_cast<std::size_t>(i)] =
              cell ? gone.error().message : cell.error().message;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& failure : failures) {
    EXPECT_EQ(failure, "");
  }
  EXPECT_EQ(take_leftovers(instance()), before);
}

}  // namespace
}  // namespace atl::runtime::testing
