// Limits are kept, seen and changed; freezing stops a cell.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/namespaces/cgroup_hierarchy.h"
#include "runtime/namespaces/cgroup_limits.h"
#include "runtime/test_guest.h"

namespace atl::runtime::testing {
namespace {

using namespaces::CgroupMount;

// Touches memory until something stops it.
PROBE(eat_memory) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 1024; ++i) {
      void* block = ::mmap(nullptr, 1U << 20, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      if (block == MAP_FAILED) {
        ::_exit(1);
      }
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? concat("signal ", WTERMSIG(status))
                             : concat("exit ", WEXITSTATUS(status));
}

PROBE(stay_forks) {
  int made = 0;
  while (made < 1000) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close_range(3, ~0U, 0);  // or the test would wait for their end
      ::pause();
      ::_exit(0);
    }
    if (child < 0) {
      break;
    }
    ++made;
  }
  return std::to_string(made);
}

PROBE(count_terminals) {
  int made = 0;
  while (made < 1000 && ::posix_openpt(O_RDWR | O_NOCTTY) >= 0) {
    ++made;
  }
  return std::to_string(made);
}

// "number value": sets both the soft and the hard limit.
PROBE(raise_limit) {
  std::istringstream words{argument};
  int number = -1;
  rlim_t value = 0;
  if (!(words >> number >> value)) {
    return "not two numbers";
  }
  const rlimit limit{value, value};
  return ::prlimit(0, static_cast<__rlimit_resource>(number), &limit, nullptr) == 0
             ? "raised"
             : ::strerrorname_np(errno);
}

// Of the cell `id`, or of the whole instance when that is empty.
std::string read_control(const std::string& instance, const std::string& id,
                         const std::vector<std::string>& names) {
  const auto mounts = namespaces::find_cgroup_mounts();
  for (const CgroupMount& mount : mounts.value_or(std::vector<CgroupMount>{})) {
    for (const std::string& name : names) {
      const std::string cell = id.empty() ? "" : concat("/cell-", id);
      const auto text = read_file(concat(mount.path, "/atoll-", instance, cell, "/", name));
      if (text) {
        return std::string{trim(*text)};
      }
    }
  }
  return "missing";
}

using LimitsTest = CellFixture;

TEST_F(LimitsTest, MemoryLimitKillsTheGlutton) {
  if (!runtime().capabilities().memory_limit) {
    GTEST_SKIP() << "no memory controller";
  }
  ASSERT_TRUE(create("one", {.memory_bytes = 64U << 20}));
  EXPECT_EQ(ask("one", "eat_memory"), "signal 9");
  EXPECT_EQ(ask("one", "ping"), "pong 1");
  const auto usage = runtime().usage("one");
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_GT(usage->memory_bytes, 0U);
  EXPECT_LT(usage->memory_bytes, 64U << 20);
  EXPECT_GT(usage->cpu_nanoseconds, 0U);
}

TEST_F(LimitsTest, ProcessLimitStopsForks) {
  if (!runtime().capabilities().process_limit) {
    GTEST_SKIP() << "no pids controller";
  }
  ASSERT_TRUE(create("one", {.process_count = 20}));
  const auto made = parse_u64(ask("one", "stay_forks"));
  ASSERT_TRUE(made);
  EXPECT_LT(*made, 20U);
  EXPECT_GE(*made, 15U);
  const auto usage = runtime().usage("one");
  ASSERT_TRUE(usage);
  EXPECT_LE(usage->process_count, 20U);
  EXPECT_GE(usage->process_count, *made);
}

TEST_F(LimitsTest, AllCellsTogetherLeaveTheHostProcesses) {
  if (!runtime().capabilities().process_limit) {
    GTEST_SKIP() << "no pids controller";
  }
  const auto host = parse_u64(trim(read_file("/proc/sys/kernel/pid_max").value_or("")));
  const auto most = parse_u64(read_control(instance(), "", {"pids.max"}));
  ASSERT_TRUE(host && most);
  EXPECT_LE(*most, *host / 5 * 4);
  EXPECT_GT(*most, 0U);
}

TEST(InstanceLimitsTest, TheSmallerOfTheHostsNumbersCounts) {
  using namespaces::instance_process_count;
  EXPECT_EQ(instance_process_count(32'770, 200'000), 26'216U);
  EXPECT_EQ(instance_process_count(4'194'304, 1'000), 800U);
  EXPECT_EQ(instance_process_count(std::nullopt, 1'000), 800U);
  EXPECT_EQ(instance_process_count(0, 1'000), 1U);
  EXPECT_EQ(instance_process_count(std::nullopt, std::nullopt), std::nullopt);
}

TEST_F(LimitsTest, LimitsAreWrittenAndChanged) {
  if (!runtime().capabilities().cpu_limit || !runtime().capabilities().memory_limit) {
    GTEST_SKIP() << "no cpu or memory controller";
  }
  ASSERT_TRUE(create("one", {.memory_bytes = 64U << 20, .cpu_millis = 500}));
  const auto quota = [&] {
    return read_control(instance(), "one", {"cpu.cfs_quota_us", "cpu.max"});
  };
  const auto memory = [&] {
    return read_control(instance(), "one", {"memory.limit_in_bytes", "memory.max"});
  };
  EXPECT_TRUE(quota().starts_with("50000")) << quota();
  EXPECT_EQ(memory(), std::to_string(64U << 20));
  ASSERT_TRUE(runtime().set_limits("one", {.memory_bytes = 128U << 20, .cpu_millis = 1500}));
  EXPECT_TRUE(quota().starts_with("150000")) << quota();
  EXPECT_EQ(memory(), std::to_string(128U << 20));
  ASSERT_TRUE(runtime().set_limits("one", {.memory_bytes = 32U << 20}));
  EXPECT_TRUE(quota() == "-1" || quota().starts_with("max")) << quota();
  EXPECT_EQ(memory(), std::to_string(32U << 20));
}

TEST_F(LimitsTest, AFrozenCellIsSilentUntilItThaws) {
  if (!runtime().capabilities().freeze) {
    GTEST_SKIP() << "no freezer";
  }
  const auto cell = create("one");
  ASSERT_TRUE(cell);
  EXPECT_FALSE(*runtime().is_frozen("one"));
  ASSERT_TRUE(runtime().freeze("one"));
  EXPECT_TRUE(*runtime().is_frozen("one"));
  const auto before = runtime().usage("one");
  std::string reply;
  std::thread asking{[&] { reply = ask("one", "ping"); }};
  const auto after = runtime().usage("one");
  EXPECT_EQ(before->cpu_nanoseconds, after->cpu_nanoseconds);
  EXPECT_TRUE(runtime().thaw("one"));
  asking.join();
  EXPECT_EQ(reply, "pong 1");
  ASSERT_TRUE(runtime().freeze("one"));
  destroy(cell->record);  // a frozen cell can be destroyed
}

TEST_F(LimitsTest, ResourceLimitsAreSetAndCannotBeRaised) {
  ASSERT_TRUE(create("one"));
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &own), 0);
  const std::string limits = ask("one", "cat /proc/1/limits");
  const auto values = [&](std::string_view name) {
    std::vector<std::string> found;
    for (const std::string_view line : split(limits, '\n')) {
      if (line.starts_with(name)) {
        std::istringstream text{std::string{line.substr(name.size())}};
        for (std::string word; text >> word;) {
          found.push_back(word);
        }
      }
    }
    found.resize(2);
    return found;
  };
  if (own.rlim_max >= 1) {
    EXPECT_EQ(values("Max core file size"), (std::vector<std::string>{"1", "1"}));
  }
  EXPECT_LE(parse_u64(values("Max open files")[1]).value_or(~0ULL), 65536U);
  EXPECT_EQ(ask("one", concat("raise_limit ", int{RLIMIT_CORE}, " 4096")), "EPERM");
  EXPECT_EQ(ask("one", concat("raise_limit ", int{RLIMIT_NOFILE}, " 65537")), "EPERM");
}

TEST_F(LimitsTest, TerminalsAreBounded) {
  ASSERT_TRUE(create("one"));
  EXPECT_EQ(ask("one", "count_terminals"), "256");
}

// A restarted node must not disturb the devices of cells that run.
TEST_F(LimitsTest, ReopeningKeepsDevicesUsable) {
  ASSERT_TRUE(create("one"));
  EXPECT_EQ(ask("one", "open_write /dev/null"), "ok");
  reopen();
  EXPECT_EQ(ask("one", "open_write /dev/null"), "ok");
  EXPECT_EQ(ask("one", "open /dev/urandom"), "ok");
}

}  // namespace
}  // namespace atl::runtime::testing
