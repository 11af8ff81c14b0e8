#include "runtime/namespaces/cgroup_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/cgroup_limits.h"

namespace atl::runtime::namespaces {
namespace {

// Names are prefixed because a control file ("tasks") is a valid cell id.
constexpr std::string_view kCellPrefix = "cell-";
constexpr int kRemoveAttempts = 2000;
constexpr std::chrono::milliseconds kRemovePause{1};

std::string cell_name(const std::string& id) {
  return concat(kCellPrefix, id);
}

// The last process is dead when we come here, but the kernel lets go of its cgroup a little
// later, and tells nobody: EBUSY for a moment is normal, so this is the one place that tries
// again on a clock.
Result<> remove_directory(int parent, const std::string& name) {
  for (int attempt = 0; attempt < kRemoveAttempts; ++attempt) {
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      return {};
    }
    if (errno != EBUSY) {
      break;
    }
    std::this_thread::sleep_for(kRemovePause);
  }
  return fail_errno(concat("removing cgroup ", name));
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<> add_cells(const CgroupHierarchy& hierarchy, std::set<std::string>& ids) {
  const int copy = ::openat(hierarchy.directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseDirectory> directory{copy < 0 ? nullptr : ::fdopendir(copy)};
  if (directory == nullptr) {
    if (copy >= 0) {
      ::close(copy);
    }
    return fail_errno(concat("listing ", hierarchy.path));
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name{entry->d_name};
    if (entry->d_type == DT_DIR && name.starts_with(kCellPrefix)) {
      ids.emplace(name.substr(kCellPrefix.size()));
    }
  }
  return {};
}

}  // namespace

Result<CgroupTree> CgroupTree::open(const std::string& instance) {
  CgroupTree tree;
  tree.name_ = concat("atoll-", instance);
  TRY(tree.hierarchies_, open_cgroup_hierarchies(tree.name_));
  const bool any = std::ranges::any_of(tree.hierarchies_, &CgroupHierarchy::per_cell);
  if (!any) {
    return fail(Code::kFailedPrecondition,
                "no writable cgroup hierarchy: mount cgroup2 on /sys/fs/cgroup, or run the node "
                "where it may write there");
  }
  for (const CgroupHierarchy& hierarchy : tree.hierarchies_) {
    TRY_DO(write_instance_limits(hierarchy));
  }
  return tree;
}

const CgroupHierarchy* CgroupTree::find(Duty duty) const {
  const auto found =
      std::ranges::find_if(hierarchies_, [&](const auto& each) { return each.does(duty); });
  return found == hierarchies_.end() ? nullptr : &*found;
}

Result<Fd> CgroupTree::open_cell(const CgroupHierarchy& hierarchy, const std::string& id) const {
  Fd fd{::openat(hierarchy.directory.get(), cell_name(id).c_str(),
                 O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) {
    return fail_errno(concat("cell ", id, " has no cgroup"));
  }
  return fd;
}

Result<Fd> CgroupTree::open_cell(Duty duty, const std::string& id) const {
  const CgroupHierarchy* hierarchy = find(duty);
  if (hierarchy == nullptr) {
    return fail(Code::kUnimplemented, "this host's cgroups cannot do that");
  }
  return open_cell(*hierarchy, id);
}

Result<> CgroupTree::require_limits(const Limits& limits) const {
  const struct {
    bool wanted;
    Duty duty;
    std::string_view controller;
  } needs[] = {{limits.memory_bytes != 0, Duty::kMemory, "memory"},
               {limits.cpu_millis != 0, Duty::kCpu, "cpu"},
               {limits.process_count != 0, Duty::kProcesses, "pids"}};
  for (const auto& need : needs) {
    if (need.wanted && !does(need.duty)) {
      return fail(Code::kFailedPrecondition,
                  concat("the host has no usable '", need.controller,
                         "' cgroup controller, so this limit cannot be kept; enable it or leave "
                         "the limit out"));
    }
  }
  return {};
}

Result<> CgroupTree::make_cell(const CgroupHierarchy& hierarchy, const std::string& id,
                               const Limits& limits, CgroupPlaces& places) const {
  const std::string name = cell_name(id);
  if (::mkdirat(hierarchy.directory.get(), name.c_str(), 0755) != 0) {
    return fail_errno(concat("making the cgroup of cell ", id));
  }
  TRY(Fd cell, open_cell(hierarchy, id));
  TRY_DO(write_limits({hierarchy, cell.get(), true}, limits));
  if (hierarchy.version2) {
    places.version2 = std::move(cell);
    return {};
  }
  Fd tasks{::openat(cell.get(), "tasks", O_WRONLY | O_CLOEXEC)};
  if (!tasks) {
    return fail_errno("opening the cgroup's tasks");
  }
  places.tasks.push_back(std::move(tasks));
  return {};
}

Result<CgroupPlaces> CgroupTree::create(const std::string& id, const Limits& limits) const {
  TRY_DO(require_limits(limits));
  CgroupPlaces places;
  bool first = true;
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.per_cell()) {
      Fd tasks{::openat(hierarchy.directory.get(), "tasks", O_WRONLY | O_CLOEXEC)};
      if (tasks) {
        places.tasks.push_back(std::move(tasks));
      }
      continue;
    }
    auto made = make_cell(hierarchy, id, limits, places);
    if (!made) {
      // An existing first directory belongs to a living cell of that id: not ours to remove.
      if (!first || made.error().code != Code::kAlreadyExists) {
        remove_or_log(id);
      }
      return fail(std::move(made).error());
    }
    first = false;
  }
  CHECK(places.tasks.size() <= kMaxCgroupFds);
  return places;
}

Result<> CgroupTree::remove(const std::string& id) const {
  Result<> outcome;
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.per_cell()) {
      continue;
    }
    auto removed = remove_directory(hierarchy.directory.get(), cell_name(id));
    if (!removed) {
      outcome = std::move(removed);
    }
  }
  return outcome;
}

void CgroupTree::remove_or_log(const std::string& id) const {
  if (const auto removed = remove(id); !removed) {
    LOG_ERROR("a cgroup is left behind", {"cell", id}, {"error", removed.error()});
  }
}

Result<> CgroupTree::set_limits(const std::string& id, const Limits& limits) const {
  TRY_DO(require_limits(limits));
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    if (hierarchy.per_cell()) {
      TRY(const Fd cell, open_cell(hierarchy, id));
      TRY_DO(write_limits({hierarchy, cell.get(), false}, limits));
    }
  }
  return {};
}

Result<Usage> CgroupTree::usage(const std::string& id) const {
  Usage usage;
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    if (hierarchy.per_cell()) {
      TRY(const Fd cell, open_cell(hierarchy, id));
      TRY_DO(read_usage(hierarchy, cell.get(), usage));
    }
  }
  return usage;
}

Result<> CgroupTree::freeze(const std::string& id) const {
  TRY(const Fd cell, open_cell(Duty::kFreeze, id));
  return write_frozen(*find(Duty::kFreeze), cell.get(), true);
}

Result<bool> CgroupTree::is_frozen(const std::string& id) const {
  TRY(const Fd cell, open_cell(Duty::kFreeze, id));
  return read_frozen(*find(Duty::kFreeze), cell.get());
}

Result<std::string> CgroupTree::freezer_path(const std::string& id) const {
  TRY_DO(open_cell(Duty::kFreeze, id));
  return concat(find(Duty::kFreeze)->path, "/", cell_name(id));
}

Result<> CgroupTree::thaw(const std::string& id) const {
  TRY(const Fd cell, open_cell(Duty::kFreeze, id));
  return write_frozen(*find(Duty::kFreeze), cell.get(), false);
}

void CgroupTree::let_killed_die(const std::string& id) const {
  const CgroupHierarchy* hierarchy = find(Duty::kFreeze);
  if (hierarchy != nullptr && !hierarchy->version2) {
    // Fails when the cgroup is gone, and then nothing is frozen.
    [[maybe_unused]] const auto thawed = thaw(id);
  }
}

Result<std::vector<std::string>> CgroupTree::list() const {
  std::set<std::string> ids;
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    TRY_DO(add_cells(hierarchy, ids));
  }
  return std::vector<std::string>{ids.begin(), ids.end()};
}

Result<std::vector<int>> CgroupTree::processes(const std::string& id) const {
  std::set<int> pids;
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    auto cell = hierarchy.per_cell() ? open_cell(hierarchy, id) : Result<Fd>{Fd{}};
    if (!cell || !*cell) {
      continue;
    }
    const auto text = read_file_at(cell->get(), "cgroup.procs", 4U << 20);
    if (!text) {
      continue;
    }
    for (const std::string_view line : split(*text, '\n')) {
      const auto pid = parse_i64(line);
      if (pid && *pid > 0) {
        pids.insert(static_cast<int>(*pid));
      }
    }
  }
  return std::vector<int>{pids.begin(), pids.end()};
}

void CgroupTree::wait_for_exits(const std::string& id, std::chrono::milliseconds at_most) const {
  const CgroupHierarchy* hierarchy = find(Duty::kFreeze);
  const bool tells = hierarchy != nullptr && hierarchy->version2;
  const auto cell = tells ? open_cell(*hierarchy, id) : Result<Fd>{Fd{}};
  if (!cell || !*cell || !wait_until_unpopulated(cell->get(), at_most)) {
    std::this_thread::sleep_for(kRemovePause);
  }
}

bool CgroupTree::contains(const std::string& id, int pid) const {
  const auto text = read_file(concat("/proc/", pid, "/cgroup"));
  if (!text) {
    return false;
  }
  const std::string wanted = concat("/", name_, "/", cell_name(id));
  return std::ranges::any_of(split(*text, '\n'),
                             [&](std::string_view line) { return line.ends_with(wanted); });
}

Result<> CgroupTree::remove_instance() {
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    TRY_DO(remove_directory(hierarchy.parent.get(), name_));
  }
  hierarchies_.clear();
  return {};
}

}  // namespace atl::runtime::namespaces
