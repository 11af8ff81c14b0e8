#include "runtime/namespaces/cgroup_limits.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::uint64_t kCpuPeriodMicroseconds = 100'000;
constexpr int kFreezeTimeoutMs = 10'000;

std::string number_or(std::uint64_t value, std::string_view none) {
  return value == 0 ? std::string{none} : std::to_string(value);
}

Result<> write_optional(int cell_fd, const std::string& file, std::string_view value) {
  auto written = write_existing_at(cell_fd, file, value);
  if (!written && written.error().code == Code::kNotFound) {
    return {};
  }
  return written;
}

// Version 1 insists on limit <= memory+swap limit at every moment, so which one goes first
// depends on the direction.
Result<> write_memory_version1(int cell_fd, std::uint64_t bytes) {
  const std::string value = number_or(bytes, "-1");
  const std::string limit = "memory.limit_in_bytes";
  const std::string with_swap = "memory.memsw.limit_in_bytes";
  auto first = write_existing_at(cell_fd, limit, value);
  if (!first && first.error().code == Code::kFailedPrecondition) {
    return first;  // busy: the cell uses more, and the kernel found nothing to take back
  }
  if (!first) {
    TRY_DO(write_optional(cell_fd, with_swap, value));
    TRY_DO(write_existing_at(cell_fd, limit, value));
  }
  return write_optional(cell_fd, with_swap, value);
}

Result<> write_memory(const LimitTarget& target, std::uint64_t bytes) {
  if (!target.hierarchy.version2) {
    return write_memory_version1(target.cell_fd, bytes);
  }
  TRY_DO(write_existing_at(target.cell_fd, "memory.max", number_or(bytes, "max")));
  return write_optional(target.cell_fd, "memory.swap.max", bytes == 0 ? "max" : "0");
}

Result<> write_cpu(const LimitTarget& target, std::uint32_t millis) {
  // As much as there is needs no limit; and the kernel looks at every group there is to check one.
  const unsigned processors = std::thread::hardware_concurrency();  // reads a file: once
  if (target.fresh && processors > 0 && millis >= 1000ULL * processors) {
    return {};
  }
  const std::uint64_t quota = millis * kCpuPeriodMicroseconds / 1000;
  if (target.hierarchy.version2) {
    return write_existing_at(target.cell_fd, "cpu.max",
                             concat(number_or(quota, "max"), " ", kCpuPeriodMicroseconds));
  }
  if (!target.fresh) {  // it is born with this period
    TRY_DO(write_existing_at(target.cell_fd, "cpu.cfs_period_us",
                             std::to_string(kCpuPeriodMicroseconds)));
  }
  return write_existing_at(target.cell_fd, "cpu.cfs_quota_us", number_or(quota, "-1"));
}

Result<std::uint64_t> read_number(int cell_fd, const std::string& file) {
  TRY(const std::string text, read_file_at(cell_fd, file));
  const auto value = parse_u64(trim(text));
  if (!value) {
    return fail(Code::kInternal, concat("cgroup file ", file, " holds no number"));
  }
  return *value;
}

std::optional<std::uint64_t> read_setting(const std::string& path) {
  const auto text = read_file(path);
  return text ? parse_u64(trim(*text)) : std::nullopt;
}

// The value behind "key " in a flat keyed file; nothing when it is not there.
std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      return parse_u64(trim(line.substr(key.size())));
    }
  }
  return std::nullopt;
}

// What would have to be found elsewhere if the cell needed it: file cache that can go at once
// does not count.
Result<> read_memory(bool version2, int cell_fd, Usage& usage) {
  TRY(usage.memory_total_bytes,
      read_number(cell_fd, version2 ? "memory.current" : "memory.usage_in_bytes"));
  TRY(const std::string stat, read_file_at(cell_fd, "memory.stat"));
  const std::uint64_t cache =
      keyed_number(stat, version2 ? "inactive_file" : "total_inactive_file").value_or(0);
  usage.memory_bytes = usage.memory_total_bytes - std::min(usage.memory_total_bytes, cache);
  // memory.peak is newer than version 2 itself.
  usage.memory_peak_bytes =
      read_number(cell_fd, version2 ? "memory.peak" : "memory.max_usage_in_bytes").value_or(0);
  return {};
}

Result<std::uint64_t> read_cpu_time(bool version2, int cell_fd) {
  if (!version2) {
    return read_number(cell_fd, "cpuacct.usage");
  }
  TRY(const std::string stat, read_file_at(cell_fd, "cpu.stat"));
  return keyed_number(stat, "usage_usec").value_or(0) * 1000;
}

Result<> wait_frozen_version2(int cell_fd) {
  const Fd events{::openat(cell_fd, "cgroup.events", O_RDONLY | O_CLOEXEC)};
  if (!events) {
    return fail_errno("opening cgroup.events");
  }
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds{kFreezeTimeoutMs};
  for (;;) {
    char text[256];
    const ssize_t got = ::pread(events.get(), text, sizeof text, 0);
    if (got < 0) {
      return fail_errno("reading cgroup.events");
    }
    if (keyed_number({text, static_cast<std::size_t>(got)}, "frozen") == 1U) {
      return {};
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return fail(Code::kDeadlineExceeded,
                  "the cell does not stop: a process of it is stuck in "
                  "the kernel");
    }
    // The kernel wakes pollers of this file when it changes.
    pollfd waiting{events.get(), POLLPRI, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
  }
}

// Version 1 has no event for it; and a state of FREEZING only advances when it is read or
// written again.
Result<> wait_frozen_version1(int cell_fd) {
  for (int waited_ms = 0; waited_ms < kFreezeTimeoutMs; ++waited_ms) {
    TRY(const std::string state, read_file_at(cell_fd, "freezer.state"));
    if (trim(state) == "FROZEN") {
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return fail(Code::kDeadlineExceeded,
              "the cell does not stop: a process of it is stuck in the kernel");
}

}  // namespace

Result<> write_limits(const LimitTarget& target, const Limits& limits) {
  const auto wanted = [&](Duty duty, std::uint64_t value) {
    return target.hierarchy.does(duty) && (value != 0 || !target.fresh);
  };
  if (wanted(Duty::kMemory, limits.memory_bytes)) {
    TRY_DO(write_memory(target, limits.memory_bytes));
  }
  if (wanted(Duty::kCpu, limits.cpu_millis)) {
    TRY_DO(write_cpu(target, limits.cpu_millis));
  }
  if (wanted(Duty::kProcesses, limits.process_count)) {
    TRY_DO(write_existing_at(target.cell_fd, "pids.max", number_or(limits.process_count, "max")));
  }
  return {};
}

std::optional<std::uint64_t> instance_process_count(std::optional<std::uint64_t> pid_max,
                                                    std::optional<std::uint64_t> threads_max) {
  if (!pid_max && !threads_max) {
    return std::nullopt;
  }
  constexpr std::uint64_t kUnknown = ~0ULL;
  const std::uint64_t most = std::min(pid_max.value_or(kUnknown), threads_max.value_or(kUnknown));
  return std::max<std::uint64_t>(most / 5 * 4, 1);
}

// Many cells, each within its own limit, must not leave the host without a process to log in with.
Result<> write_instance_limits(const CgroupHierarchy& hierarchy) {
  if (!hierarchy.does(Duty::kProcesses)) {
    return {};
  }
  const auto most = instance_process_count(read_setting("/proc/sys/kernel/pid_max"),
                                           read_setting("/proc/sys/kernel/threads-max"));
  if (!most) {
    return {};
  }
  return write_existing_at(hierarchy.directory.get(), "pids.max", std::to_string(*most));
}

Result<> read_usage(const CgroupHierarchy& hierarchy, int cell_fd, Usage& usage) {
  if (hierarchy.does(Duty::kMemory)) {
    TRY_DO(read_memory(hierarchy.version2, cell_fd, usage));
  }
  if (hierarchy.does(Duty::kCpuTime)) {
    TRY(usage.cpu_nanoseconds, read_cpu_time(hierarchy.version2, cell_fd));
  }
  if (hierarchy.does(Duty::kProcesses)) {
    TRY(const std::uint64_t count, read_number(cell_fd, "pids.current"));
    usage.process_count = static_cast<std::uint32_t>(count);
  }
  return {};
}

bool wait_until_unpopulated(int cell_fd, std::chrono::milliseconds at_most) {
  const Fd events{::openat(cell_fd, "cgroup.events", O_RDONLY | O_CLOEXEC)};
  char text[256];
  const ssize_t got = events ? ::pread(events.get(), text, sizeof text, 0) : -1;
  if (got < 0) {
    return false;
  }
  if (keyed_number({text, static_cast<std::size_t>(got)}, "populated") != 0U) {
    pollfd waiting{events.get(), POLLPRI, 0};
    ::poll(&waiting, 1, static_cast<int>(at_most.count()));
  }
  return true;
}

Result<bool> read_frozen(const CgroupHierarchy& hierarchy, int cell_fd) {
  TRY(const std::string state,
      read_file_at(cell_fd, hierarchy.version2 ? "cgroup.freeze" : "freezer.state"));
  return trim(state) == (hierarchy.version2 ? "1" : "FROZEN");
}

Result<> write_frozen(const CgroupHierarchy& hierarchy, int cell_fd, bool frozen) {
  if (hierarchy.version2) {
    TRY_DO(write_existing_at(cell_fd, "cgroup.freeze", frozen ? "1" : "0"));
  } else {
    TRY_DO(write_existing_at(cell_fd, "freezer.state", frozen ? "FROZEN" : "THAWED"));
  }
  if (!frozen) {
    return {};
  }
  auto stopped = hierarchy.version2 ? wait_frozen_version2(cell_fd) : wait_frozen_version1(cell_fd);
  if (!stopped) {
    // Half frozen is worse than not frozen; the first error is the one to tell.
    [[maybe_unused]] const auto thawed = write_frozen(hierarchy, cell_fd, false);
  }
  return stopped;
}

}  // namespace atl::runtime::namespaces
