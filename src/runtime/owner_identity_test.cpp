// Each cell has a budget of its own for what the kernel counts per user.
#include "runtime/namespaces/owner_identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <latch>
#include <thread>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/test_guest.h"

namespace atl::runtime::testing {
namespace {

constexpr std::uint32_t kSomebody = 0x20000000;

// Takes inotify instances until it is refused (or has `argument` of them) and keeps them.
PROBE(hold_inotify) {
  int channel[2] = {-1, -1};
  if (::pipe(channel) != 0) {
    return "no pipe";
  }
  const int most = std::stoi(argument);
  if (::fork() == 0) {
    const int kept = ::dup2(channel[1], 3);
    ::close_range(4, ~0U, 0);  // or the test would wait for the end of this process
    int made = 0;
    while (made < most && ::inotify_init1(0) >= 0) {
      ++made;
    }
    [[maybe_unused]] const auto wrote = ::write(kept, &made, sizeof made);
    ::close(kept);
    ::pause();
    ::_exit(0);
  }
  int made = -1;
  [[maybe_unused]] const auto got = ::read(channel[0], &made, sizeof made);
  return std::to_string(made);
}

std::string status_line(std::string_view name) {
  const std::string status = read_file("/proc/thread-self/status").value_or("");
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with(name)) {
      return std::string{line};
    }
  }
  return "missing";
}

using OwnerTest = CellFixture;

TEST_F(OwnerTest, ACellOwnsItsUserNamespace) {
  const CellSpec spec = make_spec("one");
  const auto cell = create(spec);
  ASSERT_TRUE(cell) << cell.error().message;
  const Fd user{::open(concat("/proc/", cell->record.pid, "/ns/user").c_str(), O_RDONLY)};
  uid_t owner = 0;
  ASSERT_EQ(::ioctl(user.get(), NS_GET_OWNER_UID, &owner), 0) << std::strerror(errno);
  EXPECT_EQ(owner, spec.uid_base);
  EXPECT_EQ(::geteuid(), 0U);
}

TEST_F(OwnerTest, OneCellCannotUseUpAnothersInotifyInstances) {
  const auto text = read_file("/proc/sys/fs/inotify/max_user_instances");
  const auto limit = parse_u64(trim(text.value_or("")));
  if (!limit || *limit > 10'000) {
    GTEST_SKIP() << "the host's limit is too high to be reached";
  }
  ASSERT_TRUE(create("one"));
  ASSERT_TRUE(create("two"));
  EXPECT_EQ(ask("one", concat("hold_inotify ", *limit + 1)), std::to_string(*limit));
  EXPECT_EQ(ask("one", "hold_inotify 1"), "0");
  EXPECT_EQ(ask("two", concat("hold_inotify ", *limit)), std::to_string(*limit));
  const Fd own{::inotify_init1(IN_CLOEXEC)};
  EXPECT_TRUE(own) << "the host's root is out of them too";
}

TEST(OwnerIdentityTest, OnlyThisThreadChangesAndGetsEverythingBack) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  ASSERT_EQ(::prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0), 0);
  const std::string capabilities = status_line("CapEff");
  const std::string ids = status_line("Uid");
  const int bits = ::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
  std::latch taken{1};
  std::jthread other{[&] {
    taken.wait();
    EXPECT_EQ(status_line("Uid"), ids);
  }};
  {
    namespaces::OwnerIdentity identity;
    const auto lent = identity.take(kSomebody);
    EXPECT_TRUE(lent) << lent.error().message;
    EXPECT_EQ(status_line("Uid"), concat("Uid:\t0\t", kSomebody, "\t0\t0"));
    EXPECT_EQ(status_line("CapEff"), capabilities);
    taken.count_down();
    other.join();
  }
  EXPECT_EQ(status_line("Uid"), ids);
  EXPECT_EQ(status_line("CapEff"), capabilities);
  EXPECT_EQ(::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0), bits);
  int death_signal = 0;
  EXPECT_EQ(::prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0), 0);
  EXPECT_EQ(death_signal, SIGUSR1);
  ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
}

}  // namespace
}  // namespace atl::runtime::testing
