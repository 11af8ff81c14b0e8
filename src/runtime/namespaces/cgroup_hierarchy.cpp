#include "runtime/namespaces/cgroup_hierarchy.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

struct ControllerDuty {
  std::string_view controller;
  Duty duty;
};
constexpr ControllerDuty kLimitDuties[] = {
    {"memory", Duty::kMemory}, {"cpu", Duty::kCpu}, {"pids", Duty::kProcesses}};
constexpr ControllerDuty kVersion1Duties[] = {
    {"freezer", Duty::kFreeze}, {"cpuacct", Duty::kCpuTime}, {"devices", Duty::kDevices}};

// The only devices a cell has: null zero full random urandom tty ptmx pts.
constexpr std::string_view kAllowedDevices[] = {"c 1:3 rw", "c 1:5 rw", "c 1:7 rw", "c 1:8 rw",
                                                "c 1:9 rw", "c 5:0 rw", "c 5:2 rw", "c 136:* rw"};

unsigned bit(Duty duty) {
  return static_cast<unsigned>(duty);
}

Result<Fd> open_directory(int at, const std::string& path) {
  Fd fd{::openat(at, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) {
    return fail_errno(concat("opening cgroup ", path));
  }
  return fd;
}

Result<CgroupHierarchy> make_instance_directory(const CgroupMount& mount, const std::string& name) {
  CgroupHierarchy hierarchy;
  hierarchy.version2 = mount.version2;
  hierarchy.path = concat(mount.path, "/", name);
  TRY(hierarchy.parent, open_directory(AT_FDCWD, mount.path));
  if (::mkdirat(hierarchy.parent.get(), name.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_errno(concat("making cgroup ", hierarchy.path));
  }
  TRY(hierarchy.directory, open_directory(hierarchy.parent.get(), name));
  return hierarchy;
}

// Controllers must be handed down level by level; one refusal must not cost the others.
void enable_version2_controllers(CgroupHierarchy& hierarchy, const CgroupMount& mount) {
  for (const auto& [controller, duty] : kLimitDuties) {
    if (!mount.has(controller)) {
      continue;
    }
    const std::string enable = concat("+", controller);
    auto enabled = write_existing_at(hierarchy.parent.get(), "cgroup.subtree_control", enable);
    if (enabled) {
      enabled = write_existing_at(hierarchy.directory.get(), "cgroup.subtree_control", enable);
    }
    if (enabled) {
      hierarchy.duties |= bit(duty);
    } else {
      LOG_WARN("cgroup controller cannot be enabled", {"controller", controller},
               {"error", enabled.error()});
    }
  }
}

Result<CgroupHierarchy> open_version2(const CgroupMount& mount, const std::string& name) {
  TRY(CgroupHierarchy hierarchy, make_instance_directory(mount, name));
  enable_version2_controllers(hierarchy, mount);
  struct stat status{};
  if (::fstatat(hierarchy.directory.get(), "cgroup.freeze", &status, 0) == 0) {
    hierarchy.duties |= bit(Duty::kFreeze);
  }
  if (::fstatat(hierarchy.directory.get(), "cpu.stat", &status, 0) == 0) {
    hierarchy.duties |= bit(Duty::kCpuTime);
  }
  return hierarchy;
}

// Set once and then left alone: cells of an earlier process may be running under it.
Result<> deny_devices(const CgroupHierarchy& hierarchy) {
  TRY(const std::string list, read_file_at(hierarchy.directory.get(), "devices.list"));
  const bool everything = list.starts_with("a *:*");
  const bool complete = std::ranges::all_of(
      kAllowedDevices, [&](std::string_view device) { return list.contains(device); });
  if (!everything && complete) {
    return {};
  }
  TRY_DO(write_existing_at(hierarchy.directory.get(), "devices.deny", "a"));
  for (const std::string_view device : kAllowedDevices) {
    TRY_DO(write_existing_at(hierarchy.directory.get(), "devices.allow", device));
  }
  return {};
}

// A version 1 cpuset has no cpus at birth, and nothing can run in it.
Result<> inherit_cpuset(const CgroupHierarchy& hierarchy) {
  for (const std::string file : {"cpuset.cpus", "cpuset.mems"}) {
    TRY(const std::string value, read_file_at(hierarchy.parent.get(), file));
    TRY_DO(write_existing_at(hierarchy.directory.get(), file, value));
  }
  return write_existing_at(hierarchy.directory.get(), "cgroup.clone_children", "1");
}

Result<CgroupHierarchy> open_version1(const CgroupMount& mount, const std::string& name,
                                      unsigned duties) {
  TRY(CgroupHierarchy hierarchy, make_instance_directory(mount, name));
  hierarchy.duties = duties;
  if (mount.has("cpuset")) {
    TRY_DO(inherit_cpuset(hierarchy));
  }
  if (hierarchy.does(Duty::kDevices)) {
    // The other duties must not be lost with this one, which is only a second fence.
    if (const auto denied = deny_devices(hierarchy); !denied) {
      LOG_WARN("devices cannot be denied by cgroup", {"error", denied.error()});
      hierarchy.duties &= ~bit(Duty::kDevices);
    }
  }
  return hierarchy;
}

unsigned version1_duties(const CgroupMount& mount) {
  unsigned duties = 0;
  for (const auto& [controller, duty] : kLimitDuties) {
    duties |= mount.has(controller) ? bit(duty) : 0;
  }
  for (const auto& [controller, duty] : kVersion1Duties) {
    duties |= mount.has(controller) ? bit(duty) : 0;
  }
  return duties;
}

}  // namespace

bool CgroupMount::has(std::string_view controller) const {
  return std::ranges::find(controllers, controller) != controllers.end();
}

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) {
      continue;
    }
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3 || (after[0] != "cgroup" && after[0] != "cgroup2") ||
        before[4].contains('\\')) {
      continue;
    }
    CgroupMount mount;
    mount.version2 = after[0] == "cgroup2";
    mount.path = std::string{before[4]};
    if (!mount.version2) {
      for (const std::string_view option : split(after[2], ',')) {
        mount.controllers.emplace_back(option);
      }
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Result<std::vector<CgroupMount>> find_cgroup_mounts() {
  TRY(const std::string text, read_file("/proc/self/mountinfo", 16U << 20));
  std::vector<CgroupMount> mounts = parse_cgroup_mounts(text);
  for (CgroupMount& mount : mounts) {
    if (!mount.version2) {
      continue;
    }
    const auto controllers = read_file(mount.path + "/cgroup.controllers");
    if (controllers) {
      for (const std::string_view name : split(trim(*controllers), ' ')) {
        mount.controllers.emplace_back(name);
      }
    }
  }
  // Version 2 first: it gets every duty it can do.
  std::ranges::partition(mounts, &CgroupMount::version2);
  return mounts;
}

Result<std::vector<CgroupHierarchy>> open_cgroup_hierarchies(const std::string& name) {
  TRY(const auto mounts, find_cgroup_mounts());
  std::vector<CgroupHierarchy> hierarchies;
  unsigned done = 0;
  bool version2_open = false;
  for (const CgroupMount& mount : mounts) {
    const unsigned wanted = mount.version2 ? 0 : version1_duties(mount) & ~done;
    if (mount.version2 ? version2_open : wanted == 0) {
      continue;  // a second mount of what we have, or nothing to do there
    }
    auto hierarchy =
        mount.version2 ? open_version2(mount, name) : open_version1(mount, name, wanted);
    if (!hierarchy) {
      LOG_WARN("cgroup hierarchy cannot be used", {"path", mount.path},
               {"error", hierarchy.error()});
      continue;
    }
    version2_open = version2_open || mount.version2;
    done |= hierarchy->duties;
    hierarchies.push_back(*std::move(hierarchy));
  }
  return hierarchies;
}

}  // namespace atl::runtime::namespaces
