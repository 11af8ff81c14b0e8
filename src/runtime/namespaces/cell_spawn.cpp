#include "runtime/namespaces/cell_spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>

#include "base/fault_point.h"
#include "base/strings.h"
#include "runtime/namespaces/cell_clone.h"
#include "runtime/namespaces/cell_identity.h"
#include "runtime/namespaces/cell_report.h"
#include "runtime/namespaces/cell_step.h"
#include "runtime/namespaces/criu_restore.h"
#include "runtime/namespaces/device_mount.h"
#include "runtime/namespaces/dump_files.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/namespaces/id_map.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/layer_mount.h"
#include "runtime/namespaces/mount_transfer.h"
#include "runtime/namespaces/process.h"

namespace atl::runtime::namespaces {
namespace {

constexpr int kCreateTimeoutMs = 30'000;
// Above the host's services, so the host sheds sandboxes first when it runs out of memory.
constexpr std::string_view kOomScore = "200";
// As many as the guest serves at once: a burst waits, it is not refused.
constexpr int kGuestBacklog = 1024;

// In the order that cell_root.h says.
Result<std::vector<Fd>> make_mounts(const CellBlueprint& blueprint, const CellSpec& spec,
                                    int user_namespace) {
  std::vector<Fd> mounts;
  mounts.reserve(kMaxTransferredMounts);
  for (const std::string& directory : spec.lower_dirs) {
    TRY(Fd mount, make_layer_mount(directory, {user_namespace, true}));
    mounts.push_back(std::move(mount));
  }
  TRY(Fd upper, make_layer_mount(spec.upper_dir, {user_namespace, false}));
  mounts.push_back(std::move(upper));
  TRY(Fd devices, make_device_mount(spec.uid_base, shared_memory_bytes(spec)));
  mounts.push_back(std::move(devices));
  const bool restore = !spec.from_dump.empty();
  // A dumped guest goes on with the very program it was.
  TRY(Fd guest, restore ? blueprint.guests->mount_from(dumped_guest(spec.from_dump))
                        : blueprint.guests->mount());
  mounts.push_back(std::move(guest));
  for (const VolumeMount& volume : spec.mounts) {
    TRY(Fd mount, make_layer_mount(volume.source_dir, {.user_namespace_fd = user_namespace,
                                                       .read_only = volume.read_only,
                                                       .honours_set_user_id = false,
                                                       .executable = !spec.mount_is_root}));
    mounts.push_back(std::move(mount));
  }
  for (const std::string& directory : spec.view_dirs) {
    TRY(Fd mount, make_layer_mount(directory, {.user_namespace_fd = user_namespace,
                                               .honours_set_user_id = false,
                                               .executable = false}));
    mounts.push_back(std::move(mount));
  }
  if (restore) {
    TRY(Fd tools, make_program_mount(blueprint.criu_directory));
    mounts.push_back(std::move(tools));
    TRY(Fd images, make_layer_mount(dumped_images(spec.from_dump), {user_namespace, true}));
    mounts.push_back(std::move(images));
  }
  return mounts;
}

// Until the node gives the name away only root can connect.
Result<> name_listener(int listener, const sockaddr_un& address) {
  ::unlink(address.sun_path);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(address.sun_path, 0600) != 0 || ::listen(listener, kGuestBacklog) != 0) {
    return fail_errno(concat("opening the guest's socket ", address.sun_path,
                             " (check that the run directory is writable)"));
  }
  return {};
}

// What only the outside can give the child. Returns its start time.
Result<std::uint64_t> outfit_child(const CellBlueprint& blueprint, const CellSpec& spec,
                                   const Child& child, int channel) {
  const Fd proc{::open(concat("/proc/", child.pid()).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!proc) {
    return fail_errno("opening the cell's /proc entry");
  }
  TRY(const std::string stat, read_file_at(proc.get(), "stat"));
  TRY(const std::uint64_t start_time, parse_start_time(stat));
  TRY_DO(write_id_maps(proc.get(), spec.uid_base));
  // From outside, because only here the floor below which the cell cannot go moves too. Lowering
  // may be refused; then the cell has inherited a higher score, which is just as good.
  [[maybe_unused]] const auto scored = write_existing_at(proc.get(), "oom_score_adj", kOomScore);
  // The child lowers these itself; to raise them above the node's own takes CAP_SYS_RESOURCE.
  if (spec.from_dump.empty()) {  // criu needs more, and gives each process what it had
    const rlimit files{kOpenFiles, kOpenFiles};
    (void)::prlimit(child.pid(), RLIMIT_NOFILE, &files, nullptr);
  }
  const rlimit core{kCoreBytes, kCoreBytes};
  (void)::prlimit(child.pid(), RLIMIT_CORE, &core, nullptr);

  const Fd user_namespace{::openat(proc.get(), "ns/user", O_RDONLY | O_CLOEXEC)};
  if (!user_namespace) {
    return fail_errno("opening the cell's user namespace");
  }
  TRY(const std::vector<Fd> mounts, make_mounts(blueprint, spec, user_namespace.get()));
  TRY_DO(send_mounts(channel, mounts));
  return start_time;
}

// Reads until the channel closes. Success is the "ready" report followed by the end of file that
// execveat causes; an end without it means the child was killed on the way.
Result<std::optional<NetworkSockets>> wait_for_exec(int channel) {
  std::optional<CellReport> ready;
  for (;;) {
    pollfd waiting{channel, POLLIN, 0};
    const int polled = ::poll(&waiting, 1, kCreateTimeoutMs);
    if (polled < 0 && errno == EINTR) {
      continue;
    }
    if (polled == 0) {
      return fail(Code::kDeadlineExceeded, "the cell did not come up in time");
    }
    TRY(auto report, receive_report(channel));
    if (!report) {
      break;
    }
    if (report->step.step != 0) {
      return fail(cell_step_error(report->step));
    }
    ready = std::move(report);
  }
  if (!ready) {
    return fail(Code::kResourceExhausted,
                "the cell was killed while it started (is its memory limit too small?)");
  }
  return std::move(ready->network);
}

}  // namespace

Result<Cell> spawn_cell(std::shared_ptr<const CellBlueprint> blueprint, CgroupPlaces places,
                        CellSpec wanted) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fail_errno("making the cell's channel");
  }
  const Fd ours{pair[0]};
  Fd theirs{pair[1]};
  TRY(const auto planned,
      plan_cell(std::move(blueprint), std::move(places), std::move(wanted), theirs.get()));
  const CellSpec& spec = planned->spec;
  const CellPlan& plan = planned->plan;
  const auto memory =
      planned->blueprint->lends_memory ? CellClone::Memory::kLent : CellClone::Memory::kCopied;
  CellClone clone{planned, std::move(theirs), memory};
  TRY(BegunCell begun, clone.begin(ours.get(), kCreateTimeoutMs));
  Child& child = begun.child;
  TRY_DO(name_listener(begun.listener.get(), planned->texts.guest_socket));
  begun.listener.reset();
  ATOLL_FAULT_POINT("runtime.create.begun");
  const auto start_time = outfit_child(*planned->blueprint, spec, child, ours.get());
  if (!start_time) {
    return fail(start_time.error());
  }
  ATOLL_FAULT_POINT("runtime.create.outfitted");
  Cell cell;
  if (plan.restore) {
    TRY(cell, restore_cell(ours.get(), spec, {child.pid(), planned->blueprint->proc_masks}));
  } else {
    TRY(cell.network, wait_for_exec(ours.get()));
  }
  if (plan.identity == CellPlan::Identity::kRenew) {
    // Killed before, the next start renews once more, and nobody has seen this one.
    TRY_DO(mark_disk(spec.upper_dir, spec.id));
  }
  if (plan.restore) {
    return cell;
  }
  cell.record = {spec.id, child.pid(), *start_time};
  cell.pidfd = child.keep();
  return cell;
}

}  // namespace atl::runtime::namespaces
