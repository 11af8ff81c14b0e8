#include "runtime/namespaces/sandbox_bounds.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

// atolld has the three sockets of each network, and needs some for connections and files.
constexpr std::uint64_t kFilesPerSandbox = 3;
constexpr std::uint64_t kFilesBeside = 1024;
// The agent, and what it was asked to run. A fifth of all is the host's, see cgroup_limits.cpp.
constexpr std::uint64_t kProcessesPerSandbox = 2;
// One that does nothing.
constexpr std::uint64_t kBytesPerSandbox = 512ULL << 10;
// Memory cgroups have numbers of 16 bits, and the host needs some.
constexpr std::uint64_t kMemoryGroups = 60'000;
constexpr const char* kNamespaceKinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

std::uint64_t read_number(const std::string& path) {
  const auto text = read_file(path);
  return text ? parse_u64(trim(*text)).value_or(0) : 0;
}

std::uint64_t least_known(std::uint64_t one, std::uint64_t other) {
  return one == 0 || other == 0 ? std::max(one, other) : std::min(one, other);
}

}  // namespace

HostAllowance read_host_allowance() {
  HostAllowance allowance;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    allowance.open_files = files.rlim_max;
  }
  for (const char* kind : kNamespaceKinds) {
    allowance.namespaces = least_known(
        allowance.namespaces, read_number(concat("/proc/sys/user/max_", kind, "_namespaces")));
  }
  allowance.processes = least_known(read_number("/proc/sys/kernel/pid_max"),
                                    read_number("/proc/sys/kernel/threads-max"));
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    allowance.memory_bytes =
        static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  }
  return allowance;
}

std::vector<SandboxBound> sandbox_bounds(const HostAllowance& allowance) {
  std::vector<SandboxBound> bounds;
  const auto add = [&](std::uint64_t known, std::uint64_t sandboxes, const char* what,
                       const char* advice) {
    if (known != 0) {
      bounds.push_back({sandboxes, what, advice});
    }
  };
  const std::uint64_t files = allowance.open_files;
  add(files, (files - std::min(files, kFilesBeside)) / kFilesPerSandbox, "open files per process",
      "LimitNOFILE=262144 in the service file, or ulimit -Hn");
  add(allowance.namespaces, allowance.namespaces, "namespaces",
      "sysctl -w user.max_net_namespaces=100000, and the same of the other kinds in "
      "/proc/sys/user");
  add(allowance.processes, allowance.processes / 5 * 4 / kProcessesPerSandbox, "processes",
      "sysctl -w kernel.pid_max=4194304 kernel.threads-max=1000000");
  add(allowance.memory_bytes, allowance.memory_bytes / kBytesPerSandbox, "memory",
      "more memory: one that does nothing takes nearly half a megabyte");
  add(1, kMemoryGroups, "memory cgroups", "another host: the kernel has 65,535 of them");
  std::ranges::sort(bounds, {}, &SandboxBound::sandboxes);
  return bounds;
}

}  // namespace atl::runtime::namespaces
