// The namespaces backend: the Runtime contract over the files beside this one.
//
// It keeps no table of cells. A cell is its kernel objects (a process, cgroups, namespaces that
// live as long as the process), and every call finds them anew. So there is nothing to restore
// after a crash, and calls for different cells share only immutable data.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "runtime/namespaces/cell_spawn.h"
#include "runtime/namespaces/cell_spec.h"
#include "runtime/namespaces/cgroup_tree.h"
#include "runtime/namespaces/criu_dump.h"
#include "runtime/namespaces/criu_tools.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/namespaces/id_map.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/landlock.h"
#include "runtime/namespaces/network_plan.h"
#include "runtime/namespaces/network_visit.h"
#include "runtime/namespaces/proc_masks.h"
#include "runtime/namespaces/process.h"
#include "runtime/namespaces/remains.h"
#include "runtime/namespaces/restored_fences.h"
#include "runtime/namespaces/seccomp_policy.h"
#include "runtime/namespaces/volume_mounts.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {
namespace {

constexpr int kDumpAttempts = 3;
constexpr std::uint64_t kLeastDumpBytesPerSecond = 20U << 20;
constexpr int kKillRounds = 1000;
// For the file systems of ended cells when the runtime closes; a supervisor waits a minute.
constexpr std::chrono::seconds kRemainsPatience{15};
constexpr std::chrono::milliseconds kKillPause{5};

std::vector<std::string> stage_names() {
  std::vector<std::string> names = {kStageUpper, kStageRoot, kStageSys, kStageGuests};
  for (std::size_t i = 0; i < kMaxLayers; ++i) {
    names.emplace_back(LayerName{i}.text);
  }
  return names;
}

// The mount points every child uses, each in its own mount namespace. The cell's root must be
// able to pass through the directory itself: hence search permission for others.
Result<> make_stage(const std::string& stage_dir) {
  const Fd stage{::open(stage_dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!stage || ::fchmod(stage.get(), 0711) != 0) {
    return fail_errno(concat("opening the stage directory ", stage_dir));
  }
  for (const std::string& name : stage_names()) {
    if (::mkdirat(stage.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
      return fail_errno(concat("making ", stage_dir, "/", name));
    }
  }
  return {};
}

Result<> remove_stage(const std::string& stage_dir) {
  for (const std::string& name : stage_names()) {
    if (::rmdir(concat(stage_dir, "/", name).c_str()) != 0 && errno != ENOENT) {
      return fail_errno(concat("removing ", stage_dir, "/", name));
    }
  }
  return {};
}

Result<> empty_directory(const std::string& path) {
  std::error_code error;
  for (std::filesystem::directory_iterator at{path, error}, end; !error && at != end;
       at.increment(error)) {
    std::filesystem::remove_all(at->path(), error);
  }
  return error ? fail(Code::kInternal, concat("emptying ", path, ": ", error.message()))
               : Result<>{};
}

class NamespacesRuntime final : public Runtime {
 public:
  NamespacesRuntime(CellBlueprint blueprint, CgroupTree cgroups, CriuTools tools, Egress egress)
      : blueprint_(std::make_shared<const CellBlueprint>(std::move(blueprint))),
        cgroups_(std::move(cgroups)),
        tools_(std::move(tools)) {
    capabilities_.name = "namespaces";
    capabilities_.egress = std::move(egress);
    capabilities_.freeze = cgroups_.does(Duty::kFreeze);
    capabilities_.memory_limit = cgroups_.does(Duty::kMemory);
    capabilities_.cpu_limit = cgroups_.does(Duty::kCpu);
    capabilities_.process_limit = cgroups_.does(Duty::kProcesses);
    capabilities_.landlock = blueprint_->landlock_abi >= kLeastLandlockAbi;
    capabilities_.memory_dump = capabilities_.freeze
                                    ? check_criu(tools_)
                                    : MemoryDumps{false, "this host's cgroups cannot freeze"};
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<Cell> create(const CellSpec& spec) override {
    TRY_DO(check_spec(spec));
    TRY(CgroupPlaces places, cgroups_.create(spec.id, spec.limits));
    const bool restore = !spec.from_dump.empty();
    CellSpec checked = spec;
    if (restore) {
      checked.before_resume = [&]() -> Result<> {
        TRY_DO(check_members(spec.id, 1));
        return spec.before_resume ? spec.before_resume() : Result<>{};
      };
    }
    auto cell = spawn_cell(blueprint_, std::move(places), std::move(checked));
    if (cell && restore) {
      if (auto alone = check_members(spec.id, 0); !alone) {
        cell = fail(std::move(alone).error());
      }
    }
    if (cell && !cgroups_.contains(spec.id, cell->record.pid)) {
      cell = fail(Code::kInternal, concat("cell ", spec.id, " is not in its cgroups"));
    }
    if (!cell) {
      if (const auto ended = kill_rest(spec.id); !ended) {
        LOG_ERROR("a failed cell does not end", {"cell", spec.id}, {"error", ended.error()});
      }
      cgroups_.remove_or_log(spec.id);
    }
    return cell;
  }

  Result<std::uint64_t> dump(const DumpSpec& asked) override {
    TRY_DO(check_id(asked.record.id));
    DumpSpec spec = asked;
    if (spec.time_for_memory) {
      TRY(const Usage usage, cgroups_.usage(spec.record.id));
      const std::uint64_t bytes = usage.memory_bytes + usage.memory_total_bytes;
      spec.time_limit += std::chrono::seconds{bytes / kLeastDumpBytesPerSecond};
    }
    TRY_DO(check_path(spec.directory));
    TRY_DO(check_path(spec.guest_socket));
    if (!capabilities_.memory_dump.possible) {
      return fail(Code::kUnimplemented, capabilities_.memory_dump.reason, "no_memory_dump");
    }
    TRY(const std::string freezer, cgroups_.freezer_path(spec.record.id));
    // What ends at this very moment can make a dump fail. Whatever fails again is the tree's fault.
    for (int attempt = 1;; ++attempt) {
      TRY_DO(cgroups_.thaw(spec.record.id));
      const auto closed = close_connections(spec);
      TRY_DO(cgroups_.freeze(spec.record.id));
      TRY_DO(closed);
      auto bytes = dump_cell(tools_, spec, freezer);
      if (!bytes && bytes.error().reason == kDumpCutShort) {
        // criu lets a cell move while it works in it.
        if (const auto frozen = cgroups_.freeze(spec.record.id); !frozen) {
          LOG_ERROR("a damaged cell still moves", {"error", frozen.error()});
        }
      }
      if (bytes || bytes.error().code != Code::kFailedPrecondition || attempt == kDumpAttempts) {
        return bytes;
      }
      TRY_DO(empty_directory(spec.directory));
    }
  }

  Result<Cell> adopt(const CellRecord& record) override {
    TRY_DO(check_id(record.id));
    TRY(Fd pidfd, open_process(record.pid, record.start_time));
    if (is_dead(pidfd.get()) || !cgroups_.contains(record.id, record.pid)) {
      return fail(Code::kNotFound, concat("cell ", record.id, " does not run any more"));
    }
    return Cell{record, std::move(pidfd)};
  }

  Result<> destroy(const CellRecord& record) override { return end(record, false); }
  Result<> destroy_with_disk(const CellRecord& record) override { return end(record, true); }

  Result<> set_limits(const std::string& id, const Limits& limits) override {
    TRY_DO(check_id(id));
    TRY_DO(check_limits(limits));
    return cgroups_.set_limits(id, limits);
  }
  Result<Usage> usage(const std::string& id) override {
    TRY_DO(check_id(id));
    return cgroups_.usage(id);
  }
  Result<> freeze(const std::string& id) override {
    TRY_DO(check_id(id));
    return cgroups_.freeze(id);
  }
  Result<bool> is_frozen(const std::string& id) override {
    TRY_DO(check_id(id));
    return cgroups_.is_frozen(id);
  }
  Result<> thaw(const std::string& id) override {
    TRY_DO(check_id(id));
    return cgroups_.thaw(id);
  }
  Result<> detach(const CellRecord& record, const VolumeMount& mount) override {
    TRY_DO(check_id(record.id));
    TRY(const Fd pidfd, open_process(record.pid, record.start_time));
    return detach_volume(pidfd.get(), mount);
  }
  Result<NetworkSockets> open_network(const CellRecord& record) override {
    TRY_DO(check_id(record.id));
    if (!capabilities_.egress.possible) {
      return fail(Code::kUnimplemented, capabilities_.egress.reason, "no_egress");
    }
    TRY(const Fd pidfd, open_process(record.pid, record.start_time));
    return open_network_in(pidfd.get(), capabilities_.egress.ipv6);
  }
  Result<Fd> open_socket(const CellRecord& record, SocketType type, SocketFamily family) override {
    TRY_DO(check_id(record.id));
    TRY(const Fd pidfd, open_process(record.pid, record.start_time));
    return open_socket_in(pidfd.get(), type, family);
  }
  Result<std::vector<std::string>> list() override { return cgroups_.list(); }

  Result<> close() override {
    if (!remains_.wait_until_gone(kRemainsPatience)) {
      LOG_WARN("file systems of ended cells are not written yet: the kernel goes on with them");
    }
    TRY_DO(cgroups_.remove_instance());
    TRY_DO(blueprint_->guests->close());
    return remove_stage(blueprint_->stage_dir);
  }

 private:
  Result<> end(const CellRecord& record, bool with_disk) {
    TRY_DO(check_id(record.id));
    TRY_DO(kill_still(record.id));
    auto pidfd = open_process(record.pid, record.start_time);
    // A zombie of ours is in no cgroup any more, but must be reaped.
    if (pidfd && (is_dead(pidfd->get()) || cgroups_.contains(record.id, record.pid))) {
      Fd mounts = with_disk ? hold_mounts(record.pid) : Fd{};
      const auto killed = kill_cell(record.id, pidfd->get());
      remains_.leave(std::move(mounts));
      TRY_DO(killed);
    }
    TRY_DO(kill_rest(record.id));
    return cgroups_.remove(record.id);
  }

  Result<> kill_cell(const std::string& id, int pidfd) {
    TRY_DO(kill_process(pidfd));
    cgroups_.let_killed_die(id);
    return wait_until_dead(pidfd);
  }

  // To end a frozen cell of version 1 it must be thawed, and then nothing of it may run: what was
  // dumped would go on twice. So each process has its SIGKILL before.
  Result<> kill_still(const std::string& id) {
    if (!cgroups_.does(Duty::kFreeze) || !cgroups_.is_frozen(id).value_or(false)) {
      return {};
    }
    std::set<int> killed;
    for (bool found_more = true; found_more;) {
      TRY(const std::vector<int> pids, cgroups_.processes(id));
      found_more = false;
      for (const int pid : pids) {
        if (const Fd pidfd = open_member(id, pid); pidfd && killed.insert(pid).second) {
          TRY_DO(kill_process(pidfd.get()));
          found_more = true;
        }
      }
    }
    return {};
  }

  // Processes without a record: a create was cut short by the node's death.
  Result<> kill_rest(const std::string& id) {
    TRY_DO(kill_still(id));
    for (int round = 0; round < kKillRounds; ++round) {
      TRY(const std::vector<int> pids, cgroups_.processes(id));
      if (pids.empty()) {
        return {};
      }
      for (const int pid : pids) {
        const Fd pidfd = open_member(id, pid);
        if (pidfd) {
          TRY_DO(kill_cell(id, pidfd.get()));
        }
      }
      cgroups_.wait_for_exits(id, kKillPause);  // dead members leave the list a moment later
    }
    return fail(Code::kUnavailable, concat("cell ", id, " has processes that do not end"));
  }

  Result<> check_members(const std::string& id, std::size_t outside_count) const {
    TRY(const std::vector<int> pids, cgroups_.processes(id));
    return check_restored(pids, outside_count);
  }

  // First the pidfd, then the check, so that a reused pid is never killed.
  Fd open_member(const std::string& id, int pid) const {
    Fd pidfd{pidfd_open_call(pid)};
    return pidfd && cgroups_.contains(id, pid) ? std::move(pidfd) : Fd{};
  }

  std::shared_ptr<const CellBlueprint> blueprint_;
  CgroupTree cgroups_;
  CriuTools tools_;
  Capabilities capabilities_;
  Remains remains_;
};

}  // namespace
}  // namespace atl::runtime::namespaces

namespace atl::runtime {

Result<std::unique_ptr<Runtime>> open_namespaces_runtime(const NamespacesOptions& options) {
  using namespace namespaces;
  if (!is_name(options.instance, 16, false)) {
    return fail(Code::kInvalidArgument, "an instance name is 1 to 16 of a-z and 0-9");
  }
  TRY_DO(check_path(options.stage_dir));
  CellBlueprint blueprint;
  TRY(blueprint.seccomp_filter, make_seccomp_filter());
  blueprint.stage_dir = options.stage_dir;
  blueprint.proc_masks = find_proc_masks();
  blueprint.landlock_abi = landlock_abi();
  TRY_DO(make_stage(options.stage_dir));
  TRY(blueprint.guests,
      GuestImages::open(concat(options.stage_dir, "/", kStageGuests), options.guest_binary));
  TRY(CgroupTree cgroups, CgroupTree::open(options.instance));
  Egress egress;
  if (NetworkPlan network = find_network_plan(egress); egress.possible) {
    blueprint.network = std::move(network);
  }
  CriuTools tools{options.criu_directory, options.criu_adapter};
  blueprint.criu_directory = options.criu_directory;
  return std::make_unique<NamespacesRuntime>(std::move(blueprint), std::move(cgroups),
                                             std::move(tools), std::move(egress));
}

}  // namespace atl::runtime
