// What `atoll doctor` says about this host: each check tries the real thing where that is cheap
// and harmless, and reads what the kernel says about itself elsewhere.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/strings.h"
#include "runtime/namespaces/cgroup_hierarchy.h"
#include "runtime/namespaces/criu_tools.h"
#include "runtime/namespaces/landlock.h"
#include "runtime/namespaces/network_plan.h"
#include "runtime/namespaces/overlay_trial.h"
#include "runtime/namespaces/sandbox_bounds.h"
#include "runtime/room.h"

namespace atl::runtime {
namespace {

using namespaces::CgroupMount;
using Verdict = HostCheck::Verdict;

constexpr std::uint64_t kWantedOpenFiles = 1U << 16;  // what a process in a cell gets at most
constexpr std::uint64_t kWantedHostFiles = 4'000'000;
constexpr std::uint64_t kWantedSandboxes = 5'000;
constexpr std::uint64_t kWantedUserNamespaces = 1024;

HostCheck check_kernel() {
  utsname name{};
  ::uname(&name);
  const auto parts = split(name.release, '.');
  const auto major = parse_u64(parts[0]).value_or(0);
  const auto minor = parts.size() > 1 ? parse_u64(parts[1]).value_or(0) : 0;
  HostCheck check{"kernel", Verdict::kOk, name.release, ""};
  if (major < 5 || (major == 5 && minor < 19)) {
    check.verdict = Verdict::kMissing;
    check.advice = "install Linux 5.19 or newer: overlays over id-mapped layers need it";
  }
  return check;
}

HostCheck check_root() {
  if (::geteuid() == 0) {
    return {"privileges", Verdict::kOk, "running as root", ""};
  }
  return {"privileges", Verdict::kMissing, "not root",
          "run this command as root: the node makes namespaces, mounts and cgroups"};
}

HostCheck check_user_namespaces() {
  const auto most = read_file("/proc/sys/user/max_user_namespaces");
  if (!most) {
    return {"user namespaces", Verdict::kMissing, "the kernel has none",
            "use a kernel with CONFIG_USER_NS=y"};
  }
  const std::uint64_t count = parse_u64(trim(*most)).value_or(0);
  HostCheck check{"user namespaces", Verdict::kOk, concat("up to ", count), ""};
  if (count < kWantedUserNamespaces) {
    check.verdict = count == 0 ? Verdict::kMissing : Verdict::kDegraded;
    check.advice = concat("sysctl -w user.max_user_namespaces=", 65536);
  }
  return check;
}

HostCheck check_overlay() {
  const auto tried = namespaces::try_overlay("/var/tmp");
  if (tried) {
    return {"overlay on id-mapped layers", Verdict::kOk, "works (tried in /var/tmp)", ""};
  }
  return {"overlay on id-mapped layers", Verdict::kMissing, tried.error().message,
          "load the overlay module (modprobe overlay), keep the data directory on ext4, xfs or "
          "btrfs, and use Linux 5.19 or newer"};
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += concat(text.empty() ? "" : " ", word);
  }
  return text;
}

HostCheck check_cgroups() {
  HostCheck check{"cgroups", Verdict::kOk, "", ""};
  const auto mounts = namespaces::find_cgroup_mounts();
  if (!mounts || mounts->empty()) {
    return {"cgroups", Verdict::kMissing, "no hierarchy is mounted",
            "mount -t cgroup2 none /sys/fs/cgroup"};
  }
  std::vector<std::string> found;
  std::vector<std::string> lacking;
  for (const std::string controller : {"memory", "cpu", "pids"}) {
    const CgroupMount* owner = nullptr;
    for (const CgroupMount& mount : *mounts) {
      if (owner == nullptr && mount.has(controller)) {
        owner = &mount;
      }
    }
    if (owner == nullptr) {
      lacking.push_back(controller);
    } else {
      found.push_back(concat(controller, owner->version2 ? " (v2)" : " (v1)"));
    }
  }
  const bool version2 = mounts->front().version2;
  check.finding = concat(join(found), version2 ? ", v2 hierarchy" : ", no v2 hierarchy",
                         lacking.empty() ? "" : "; lacking: ", join(lacking));
  if (!lacking.empty()) {
    check.verdict = Verdict::kDegraded;
    check.advice = concat("limits for ", join(lacking),
                          " cannot be kept: boot with these controllers enabled "
                          "(cgroup_enable=memory on some machines)");
  }
  return check;
}

HostCheck check_seccomp() {
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 &&
      ::access("/proc/sys/kernel/seccomp/actions_avail", R_OK) == 0) {
    return {"seccomp", Verdict::kOk, "filters available", ""};
  }
  return {"seccomp", Verdict::kMissing, "no filters", "use a kernel with CONFIG_SECCOMP_FILTER=y"};
}

HostCheck check_landlock() {
  const int abi = namespaces::landlock_abi();
  if (abi >= 6) {
    return {"Landlock", Verdict::kOk, concat("ABI ", abi), ""};
  }
  return {"Landlock", Verdict::kDegraded, abi == 0 ? "not available" : concat("ABI ", abi),
          "optional second fence: Linux 6.12 with lsm=landlock,... on the kernel command line "
          "has all of it"};
}

HostCheck check_network() {
  Egress egress;
  (void)namespaces::find_network_plan(egress);
  if (egress.possible && egress.ipv6) {
    return {"sandbox network", Verdict::kOk, "transparent proxying works (tried), IPv4 and IPv6",
            ""};
  }
  return {"sandbox network", Verdict::kDegraded,
          egress.possible ? "transparent proxying works (tried), IPv4 only" : egress.reason,
          egress.possible ? "IPv6 is off in this kernel: sandboxes reach only IPv4"
                          : "sandboxes run with a loopback device and reach nothing; load the "
                            "modules (modprobe nft_tproxy) or use a kernel that has them"};
}

HostCheck check_device(const std::string& name, const std::string& path,
                       const std::string& advice) {
  if (::access(path.c_str(), R_OK | W_OK) == 0) {
    return {name, Verdict::kOk, concat(path, " is there"), ""};
  }
  return {name, Verdict::kDegraded, concat(path, " is missing or closed"), advice};
}

HostCheck check_btrfs() {
  const auto known = read_file("/proc/filesystems");
  if (known && known->contains("\tbtrfs\n")) {
    return {"btrfs", Verdict::kOk, "known to the kernel", ""};
  }
  return {"btrfs", Verdict::kDegraded, "unknown to the kernel",
          "modprobe btrfs: snapshots become independent of size; without it they are copies"};
}

HostCheck check_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  HostCheck check{"open files", Verdict::kOk, concat("hard limit ", limit.rlim_max), ""};
  if (limit.rlim_max < kWantedOpenFiles) {
    check.verdict = Verdict::kDegraded;
    check.advice = concat("LimitNOFILE=", kWantedOpenFiles,
                          " in the service file: programs in sandboxes get no more than this");
  }
  return check;
}

// How many cells at once, and what would have to be raised for more.
HostCheck check_sandbox_count() {
  const auto bounds = namespaces::sandbox_bounds(namespaces::read_host_allowance());
  const auto& first = bounds.front();
  HostCheck check{"number of sandboxes", Verdict::kOk,
                  concat("about ", first.sandboxes, " at once, bounded by ", first.what), ""};
  if (first.sandboxes < kWantedSandboxes) {
    check.verdict = Verdict::kDegraded;
    check.advice = first.advice;
  }
  return check;
}

// Everybody but root is refused when the host has this many, so cells must not get near it.
HostCheck check_host_files() {
  const auto text = read_file("/proc/sys/fs/file-max");
  const std::uint64_t most = text ? parse_u64(trim(*text)).value_or(0) : 0;
  HostCheck check{"open files of the host", Verdict::kOk, concat("up to ", most), ""};
  if (most < kWantedHostFiles) {
    check.verdict = Verdict::kDegraded;
    check.advice = concat("sysctl -w fs.file-max=", kWantedHostFiles,
                          ": all sandboxes and the host's services share this number");
  }
  return check;
}

// Cells refuse core dumps, but a handler is started in the host's name for every other crash, and
// for theirs too when the node's own hard limit is zero.
HostCheck check_core_dumps() {
  const std::string pattern{trim(read_file("/proc/sys/kernel/core_pattern").value_or(""))};
  if (!pattern.starts_with('|')) {
    return {"core dumps", Verdict::kOk, "not piped to a program", ""};
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  return {"core dumps", Verdict::kDegraded,
          concat("piped to a program that runs as root",
                 limit.rlim_max == 0 ? "; the node may not refuse that for sandboxes"
                                     : "; refused for sandboxes"),
          limit.rlim_max == 0
              ? "LimitCORE=1 in the service file (the kernel pipes with 0, but not with 1), or "
                "sysctl -w kernel.core_pattern=core"
              : "sysctl -w kernel.core_pattern=core on hosts that run only sandboxes"};
}

HostCheck check_proc() {
  const std::string mounts = read_file("/proc/self/mountinfo", 16U << 20).value_or("");
  for (const std::string_view line : split(mounts, '\n')) {
    const auto fields = split(line, ' ');
    // systemd mounts binfmt_misc on a directory that exists for it; that hides nothing.
    if (fields.size() > 4 && fields[4].starts_with("/proc/") &&
        fields[4] != "/proc/sys/fs/binfmt_misc") {
      return {"/proc", Verdict::kMissing, concat("something is mounted on ", fields[4]),
              "a new /proc is only allowed where the old one is whole: give the node's container "
              "an unmasked /proc (Docker: --security-opt systempaths=unconfined)"};
    }
  }
  return {"/proc", Verdict::kOk, "whole", ""};
}

}  // namespace

HostCheck check_memory_dumps(const NamespacesOptions& options) {
  const MemoryDumps dumps = namespaces::check_criu({options.criu_directory, options.criu_adapter});
  if (dumps.possible) {
    return {"memory dumps", Verdict::kOk, concat("criu in ", options.criu_directory), ""};
  }
  return {"memory dumps", Verdict::kDegraded, dumps.reason,
          "as root: tools/setup-criu. Without it a pause keeps memory only while the host runs"};
}

std::vector<HostCheck> check_host() {
  return {
      check_kernel(),
      check_root(),
      check_user_namespaces(),
      check_overlay(),
      check_proc(),
      check_cgroups(),
      check_seccomp(),
      check_landlock(),
      check_network(),
      check_btrfs(),
      check_device("loop devices", "/dev/loop-control",
                   "modprobe loop: the btrfs pool lives in a loop file when the data directory is "
                   "on another file system"),
      check_device("KVM", "/dev/kvm",
                   "optional: needed only for sandboxes with their own kernel; enable "
                   "virtualisation in the firmware or nested virtualisation in the host"),
      check_sandbox_count(),
      check_open_files(),
      check_host_files(),
      check_core_dumps(),
  };
}

}  // namespace atl::runtime
