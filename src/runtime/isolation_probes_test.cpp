// What code inside a cell gets when it asks for what it must not have, and for what it must.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/namespaces/capability_set.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/test_guest.h"

namespace atl::runtime::testing {
namespace {

namespace fs = std::filesystem;

std::string outcome(long returned) {
  return returned < 0 ? ::strerrorname_np(errno) : "ok";
}

// "number a b c d e f" in any base: one raw system call.
PROBE(syscall) {
  std::istringstream text{argument};
  std::vector<long> values;
  std::string word;
  while (text >> word) {
    values.push_back(static_cast<long>(std::stoull(word, nullptr, 0)));
  }
  values.resize(7);
  return outcome(
      ::syscall(values[0], values[1], values[2], values[3], values[4], values[5], values[6]));
}

PROBE(open) {
  return outcome(::open(argument.c_str(), O_RDONLY | O_CLOEXEC));
}
PROBE(open_write) {
  return outcome(::open(argument.c_str(), O_WRONLY | O_CLOEXEC));
}

PROBE(cat) {
  std::ifstream file{argument};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

PROBE(list) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{argument, error}) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  std::string all;
  for (const std::string& name : names) {
    all += concat(all.empty() ? "" : " ", name);
  }
  return error ? error.message() : all;
}

PROBE(make_device) {
  return outcome(
      ::mknod("/tmp/device", (argument == "block" ? S_IFBLK : S_IFCHR) | 0600, makedev(1, 3)));
}

// Between directories: what Landlock without REFER would forbid.
PROBE(move_file) {
  ::mkdir("/tmp/a", 0755);
  ::mkdir("/tmp/b", 0755);
  std::ofstream{"/tmp/a/file"} << "text";
  if (::link("/tmp/a/file", "/tmp/b/linked") != 0) {
    return concat("link ", outcome(-1));
  }
  return outcome(::rename("/tmp/a/file", "/tmp/b/moved"));
}

PROBE(trace_child) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const long attached = ::ptrace(PTRACE_SEIZE, child, nullptr, nullptr);
  const std::string result = outcome(attached);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return result;
}

PROBE(loopback) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(80);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::setuid(1000) != 0 ||
      ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 1) != 0) {
    return concat("bind ", outcome(-1));
  }
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  return outcome(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address));
}

// A set-user-id program must gain root again: this is what sudo needs.
PROBE(regain_root) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(1000, 1000, 1000) != 0 || ::setresuid(1000, 1000, 1000) != 0) {
      ::_exit(9);
    }
    ::_exit(::geteuid() == 1000 && ::access("/root-only", R_OK) != 0 ? 0 : 8);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::ifstream own{"/proc/self/status"};
  std::string line;
  while (std::getline(own, line)) {
    if (line.starts_with("NoNewPrivs:")) {
      return concat(WEXITSTATUS(status), " ", line);
    }
  }
  return "no status";
}

PROBE(terminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    return concat("pty ", outcome(-1));
  }
  const int terminal_fd = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  char letter = 'x';
  return concat(terminal_fd < 0 ? "no terminal" : "terminal", " ",
                outcome(::ioctl(terminal_fd, TIOCSTI, &letter)));
}

using IsolationTest = CellFixture;

TEST_F(IsolationTest, ForbiddenSystemCallsAreRefused) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  const struct {
    const char* name;
    std::string line;
    const char* expected;
  } cases[] = {
      {"bpf", concat(SYS_bpf), "EPERM"},
      {"kexec_load", concat(SYS_kexec_load), "EPERM"},
      {"keyctl", concat(SYS_keyctl, " 0 0xfffffffffffffffd 0"), "EPERM"},
      {"add_key", concat(SYS_add_key), "EPERM"},
      {"request_key", concat(SYS_request_key), "EPERM"},
      {"userfaultfd", concat(SYS_userfaultfd), "EPERM"},
      {"io_uring_setup", concat(SYS_io_uring_setup, " 8"), "EPERM"},
      {"mount", concat(SYS_mount), "EPERM"},
      {"umount2", concat(SYS_umount2), "EPERM"},
      {"fsopen", concat(SYS_fsopen), "EPERM"},
      {"open_tree", concat(SYS_open_tree), "EPERM"},
      {"move_mount", concat(SYS_move_mount), "EPERM"},
      {"mount_setattr", concat(SYS_mount_setattr), "EPERM"},
      {"pivot_root", concat(SYS_pivot_root), "EPERM"},
      {"setns", concat(SYS_setns, " 3 0"), "EPERM"},
      {"unshare user", concat(SYS_unshare, " 0x10000000"), "EPERM"},
      {"unshare time", concat(SYS_unshare, " 0x80"), "EPERM"},
      {"clone new net", concat(SYS_clone, " 0x40000011"), "EPERM"},
      {"clone3", concat(SYS_clone3, " 0 88"), "ENOSYS"},
      {"open_by_handle_at", concat(SYS_open_by_handle_at), "EPERM"},
      {"name_to_handle_at", concat(SYS_name_to_handle_at), "EPERM"},
      {"perf_event_open", concat(SYS_perf_event_open), "EPERM"},
      {"init_module", concat(SYS_init_module), "EPERM"},
      {"finit_module", concat(SYS_finit_module), "EPERM"},
      {"delete_module", concat(SYS_delete_module), "EPERM"},
      {"reboot", concat(SYS_reboot, " 0xfee1dead 672274793 0"), "EPERM"},
      {"swapon", concat(SYS_swapon), "EPERM"},
      {"acct", concat(SYS_acct), "EPERM"},
      {"quotactl", concat(SYS_quotactl), "EPERM"},
      {"settimeofday", concat(SYS_settimeofday), "EPERM"},
      {"clock_settime", concat(SYS_clock_settime), "EPERM"},
      {"sethostname", concat(SYS_sethostname), "EPERM"},
      {"syslog", concat(SYS_syslog, " 3 0 0"), "EPERM"},
      {"personality read-implies-exec", concat(SYS_personality, " 0x400000"), "EPERM"},
      {"fanotify_init", concat(SYS_fanotify_init), "EPERM"},
      {"packet socket", concat(SYS_socket, " 17 3 0"), "EAFNOSUPPORT"},
      {"vsock", concat(SYS_socket, " 40 1 0"), "EAFNOSUPPORT"},
      {"crypto socket", concat(SYS_socket, " 38 5 0"), "EAFNOSUPPORT"},
      {"audit netlink", concat(SYS_socket, " 16 3 9"), "EPROTONOSUPPORT"},
      {"netfilter netlink", concat(SYS_socket, " 16 3 12"), "EPROTONOSUPPORT"},
      {"raw socket", concat(SYS_socket, " 2 3 1"), "EPERM"},
      {"sctp", concat(SYS_socket, " 2 1 132"), "EPROTONOSUPPORT"},
      {"dccp", concat(SYS_socket, " 2 6 0"), "ESOCKTNOSUPPORT"},
      {"tcp6", concat(SYS_socket, " 10 1 6"), "ok"},
      {"asynchronous files", concat(SYS_io_setup, " 1 0"), "ENOSYS"},
      {"huge map", concat(SYS_mmap, " 0 0x200000 3 0x40022 -1 0"), "ENOMEM"},
      {"huge file", concat(SYS_memfd_create, " 0 4"), "ENOMEM"},
      {"huge segment", concat(SYS_shmget, " 0 0x200000 05600"), "ENOMEM"},
      {"route netlink", concat(SYS_socket, " 16 3 0"), "ok"},
      {"unknown call", "1000", "ENOSYS"},
      {"x32 read", "0x40000000", "ENOSYS"},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(ask("one", concat("syscall ", each.line)), each.expected) << each.name;
  }
}

TEST_F(IsolationTest, OrdinaryWorkIsAllowed) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "move_file"), "ok");
  EXPECT_EQ(ask("one", "trace_child"), "ok");
  EXPECT_EQ(ask("one", "loopback"), "ok");
  EXPECT_EQ(ask("one", "terminal"), "terminal EPERM");
  EXPECT_EQ(ask("one", "regain_root"), "0 NoNewPrivs:\t0");
  EXPECT_EQ(ask("one", "open_write /dev/null"), "ok");
  EXPECT_EQ(ask("one", "open /dev/urandom"), "ok");
}

TEST_F(IsolationTest, DeviceNodesCannotBeMade) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_NE(ask("one", "make_device char"), "ok");
  EXPECT_NE(ask("one", "make_device block"), "ok");
  EXPECT_EQ(ask("one", "list /dev"),
            "fd full init mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero");
}

TEST_F(IsolationTest, ProcShowsOnlyTheCell) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  for (const char* name :
       {"kcore", "kallsyms", "kmsg", "keys", "key-users", "timer_list", "interrupts", "cmdline",
        "config.gz", "partitions", "diskstats", "iomem", "swaps", "modules", "zoneinfo"}) {
    EXPECT_EQ(ask("one", concat("cat /proc/", name)), "") << name;
  }
  for (const char* name : {"acpi", "fs", "bus", "irq", "driver", "pressure"}) {
    const std::string seen = ask("one", concat("list /proc/", name));
    EXPECT_TRUE(seen.empty() || seen == "No such file or directory") << name << ": " << seen;
  }
  for (const char* path :
       {"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
        "/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward"}) {
    EXPECT_NE(ask("one", concat("open_write ", path)), "ok") << path;
  }
  EXPECT_EQ(ask("one", "cat /proc/sys/user/max_user_namespaces"), "0\n");
  EXPECT_TRUE(ask("one", "cat /proc/self/cgroup").ends_with(":/\n"));
  EXPECT_FALSE(ask("one", "cat /proc/self/mountinfo").contains(directory()));
  EXPECT_FALSE(ask("one", "cat /proc/1/environ").contains("HOSTNAME"));
}

TEST_F(IsolationTest, SysIsAnAllowList) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "list /sys"), "class devices fs kernel");
  EXPECT_EQ(ask("one", "list /sys/class/net"), "lo");
  EXPECT_EQ(ask("one", "list /sys/fs"), "");
  EXPECT_EQ(ask("one", "list /sys/devices"), "system virtual");
  EXPECT_EQ(ask("one", "list /sys/devices/system"), "cpu");
  EXPECT_EQ(ask("one", "open_write /sys/class/net/lo/mtu"), "EROFS");
}

// Each costs memory in every other cell: see docs/cell-cost.md before adding one.
TEST_F(IsolationTest, ACellHasSixFileSystemsOfItsOwn) {
  const auto one = create("one");
  ASSERT_TRUE(one) << one.error().message;
  const auto two = create("two");
  ASSERT_TRUE(two) << two.error().message;
  const auto places_of = [&](const char* id) {  // by device
    std::map<std::string, std::set<std::string>> places;
    const std::string mounts = ask(id, "cat /proc/self/mountinfo");
    for (const std::string_view line : split(mounts, '\n')) {
      if (const auto fields = split(line, ' '); fields.size() > 4) {
        places[std::string{fields[2]}].emplace(fields[4]);
      }
    }
    return places;
  };
  const auto places = places_of("one");
  const auto others = places_of("two");
  std::set<std::string> shared_places;
  std::size_t own = 0;
  for (const auto& [device, mounted] : places) {
    if (others.contains(device)) {
      shared_places.insert(mounted.begin(), mounted.end());
    } else {
      ++own;
    }
  }
  // The root, /proc, /dev with /dev/shm and the directories of /sys, /dev/pts, /dev/mqueue, sysfs.
  EXPECT_EQ(own, 6U);
  EXPECT_EQ(shared_places, std::set<std::string>{namespaces::kGuestPath});
}

TEST_F(IsolationTest, PartsOfOneFileSystemAllowWhatTheirPlaceAllows) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  std::map<std::string, std::string> options;
  const std::string mounts = ask("one", "cat /proc/self/mountinfo");
  for (const std::string_view line : split(mounts, '\n')) {
    if (const auto fields = split(line, ' '); fields.size() > 5) {
      options[std::string{fields[4]}] = fields[5];
    }
  }
  EXPECT_TRUE(options["/dev"].starts_with("rw,nosuid,noexec")) << options["/dev"];
  EXPECT_TRUE(options["/dev/shm"].starts_with("rw,nosuid,nodev,")) << options["/dev/shm"];
  EXPECT_FALSE(options["/dev/shm"].contains("noexec")) << options["/dev/shm"];
  EXPECT_TRUE(options["/sys"].starts_with("ro,nosuid,nodev,noexec")) << options["/sys"];
  EXPECT_EQ(ask("one", "list /dev/pts"), "ptmx");
  EXPECT_EQ(ask("one", "list /dev/shm"), "");
}

TEST_F(IsolationTest, CapabilitiesAreExactlyTheKeptOnes) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  char kept[32];
  std::snprintf(kept, sizeof kept, "%016llx",
                static_cast<unsigned long long>(namespaces::kKeptCapabilities));
  const std::string status = ask("one", "cat /proc/1/status");
  EXPECT_TRUE(status.contains(concat("CapPrm:\t", kept))) << status;
  EXPECT_TRUE(status.contains(concat("CapEff:\t", kept)));
  EXPECT_TRUE(status.contains(concat("CapBnd:\t", kept)));
  EXPECT_TRUE(status.contains("CapInh:\t0000000000000000"));
  EXPECT_TRUE(status.contains("CapAmb:\t0000000000000000"));
  EXPECT_TRUE(status.contains("Seccomp:\t2"));
  EXPECT_TRUE(status.contains("SigBlk:\t0000000000000000"));
  EXPECT_TRUE(status.contains("SigIgn:\t0000000000000000"));
}

TEST_F(IsolationTest, TheGuestInheritsOnlyItsSocket) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  const std::string fds = ask("one", "list /proc/1/fd");
  EXPECT_TRUE(fds == "0 1 2 3" || fds == "0 1 2 3 4") << fds;  // 4: this connection
  EXPECT_EQ(ask("one", "open_write /proc/1/exe"), "EACCES");
  EXPECT_EQ(ask("one", "cat /proc/1/oom_score_adj"), "200\n");
}

TEST_F(IsolationTest, TwoCellsShareNothing) {
  const auto first = create("one");
  const auto second = create("two");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(ask("one", concat("syscall ", SYS_kill, " ", second->record.pid, " 0")), "ESRCH");
  const std::string pids = ask("two", "list /proc");
  EXPECT_TRUE(pids.starts_with("1 ")) << pids;
  EXPECT_FALSE(pids.contains(std::to_string(first->record.pid)));
  struct stat outside{};
  const std::string proc = concat("/proc/", first->record.pid);
  ASSERT_EQ(::stat(proc.c_str(), &outside), 0);
  EXPECT_EQ(outside.st_uid, 0x20000000U);
  for (const char* name : {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"}) {
    const auto link = [&](std::string pid) {
      return fs::read_symlink(concat("/proc/", pid, "/ns/", name)).string();
    };
    const std::string one = link(std::to_string(first->record.pid));
    EXPECT_NE(one, link(std::to_string(second->record.pid))) << name;
    EXPECT_NE(one, link("self")) << name;
  }
}

}  // namespace
}  // namespace atl::runtime::testing
