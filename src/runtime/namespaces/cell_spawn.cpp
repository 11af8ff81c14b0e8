#include "runtime/namespaces/cell_spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/random.h"
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
// Per process: enough for every server, and 4096 processes of a cell must not be able to hold what
// fs.file-max allows the whole host many times over.
constexpr rlim_t kOpenFiles = 1U << 16;
constexpr rlim_t kCoreBytes = 1;  // see set_resource_limits
// Above the host's services, so the host sheds sandboxes first when it runs out of memory.
constexpr std::string_view kOomScore = "200";
// As many as the guest serves at once: a burst waits, it is not refused.
constexpr int kGuestBacklog = 1024;
constexpr const char* kHostResolver = "/etc/resolv.conf";
constexpr std::size_t kMaxResolverBytes = std::size_t{64} * 1024;
constexpr std::uint64_t kShmBytesWithoutLimit = 1ULL << 30;
// What criu is told by file: its protocol has no words for a directory by name.
constexpr const char* kRestoreSettingsText = "work-dir /dev/.restore/work\n";

// The texts a plan points into.
struct PlanTexts {
  std::string overlay_options;
  std::string tmp_options;
  std::string hostname_file;
  std::string hosts_file;
  std::string own_hosts_line;
  std::string machine_id_file;
  std::string boot_id_file;
  std::string resolver_file;
  std::string time_offsets;
  sockaddr_un guest_socket{};
};

std::uint64_t shared_memory_bytes(const CellSpec& spec) {
  const std::uint64_t memory = spec.limits.memory_bytes;
  return memory == 0 ? kShmBytesWithoutLimit : memory / 2;
}

Result<PlanTexts> make_texts(const CellSpec& spec) {
  PlanTexts texts;
  texts.overlay_options = "lowerdir=";
  for (std::size_t i = 0; i < spec.lower_dirs.size(); ++i) {
    texts.overlay_options += concat(i == 0 ? "" : ":", LayerName{i}.text);
  }
  texts.overlay_options +=
      concat(",upperdir=", kStageUpper, "/upper,workdir=", kStageUpper, "/work,userxattr");
  texts.tmp_options = concat("mode=1777,nr_inodes=65536,size=", shared_memory_bytes(spec));
  texts.hostname_file = spec.hostname + "\n";
  texts.own_hosts_line = concat("127.0.1.1\t", spec.hostname, "\n");
  texts.hosts_file = concat("127.0.0.1\tlocalhost\n", texts.own_hosts_line,
                            "::1\tlocalhost ip6-localhost ip6-loopback\n");
  texts.machine_id_file = random_hex(32) + "\n";
  texts.boot_id_file = make_boot_id();
  if (spec.host_network) {
    // A host without the file resolves through its default, a server on its own loopback device.
    auto resolver = read_file(kHostResolver, kMaxResolverBytes);
    if (!resolver && resolver.error().code != Code::kNotFound) {
      return fail(std::move(resolver).error());
    }
    texts.resolver_file = resolver ? *std::move(resolver) : std::string{};
  }
  texts.guest_socket.sun_family = AF_UNIX;
  if (spec.guest_socket.size() >= sizeof texts.guest_socket.sun_path) {
    return fail(Code::kInvalidArgument, concat("socket path is too long: ", spec.guest_socket));
  }
  std::memcpy(texts.guest_socket.sun_path, spec.guest_socket.c_str(), spec.guest_socket.size());
  if (!spec.from_dump.empty()) {
    TRY(texts.time_offsets, time_offsets_of(spec.from_dump));
    // The same as before, unless the processes go on as somebody else.
    if (const auto before = read_file(dumped_boot_id(spec.from_dump));
        before && disk_belongs_to(spec.upper_dir, spec.id)) {
      texts.boot_id_file = *before;
    }
  }
  return texts;
}

CellPlan::Identity decide_identity(const CellSpec& spec) {
  if (spec.anonymous) {
    return CellPlan::Identity::kFillIn;
  }
  return disk_belongs_to(spec.upper_dir, spec.id) ? CellPlan::Identity::kKeep
                                                  : CellPlan::Identity::kRenew;
}

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

Result<Cell> spawn_cell(const CellBlueprint& blueprint, const CgroupPlaces& places,
                        const CellSpec& spec) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fail_errno("making the cell's channel");
  }
  const Fd ours{pair[0]};
  Fd theirs{pair[1]};
  TRY(const PlanTexts texts, make_texts(spec));
  const sock_fprog filter{static_cast<unsigned short>(blueprint.seccomp_filter.size()),
                          const_cast<sock_filter*>(blueprint.seccomp_filter.data())};
  std::vector<int> cgroup_fds;
  cgroup_fds.reserve(places.tasks.size());
  for (const Fd& tasks : places.tasks) {
    cgroup_fds.push_back(tasks.get());
  }
  std::vector<const char*> mount_targets;
  for (const VolumeMount& volume : spec.mounts) {
    mount_targets.push_back(volume.target.c_str());
  }
  const CellPlan plan{
      .channel_fd = theirs.get(),
      .cgroup_fds = cgroup_fds,
      .stage_dir = blueprint.stage_dir.c_str(),
      .hostname = spec.hostname.c_str(),
      .overlay_options = texts.overlay_options.c_str(),
      // As large as shared memory may be, and counted like it.
      .tmp_options = spec.ephemeral_tmp ? texts.tmp_options.c_str() : nullptr,
      .identity = decide_identity(spec),
      .hostname_file = texts.hostname_file.c_str(),
      .hosts_file = texts.hosts_file.c_str(),
      .own_hosts_line = texts.own_hosts_line.c_str(),
      .machine_id_file = texts.machine_id_file.c_str(),
      .boot_id_file = texts.boot_id_file.c_str(),
      .resolver_file = spec.host_network ? texts.resolver_file.c_str() : nullptr,
      .network =
          spec.egress && !spec.host_network && blueprint.network ? &*blueprint.network : nullptr,
      .layer_count = spec.lower_dirs.size(),
      .mount_targets = mount_targets,
      .mount_is_root = spec.mount_is_root,
      .view_count = spec.view_dirs.size(),
      .proc_masks = blueprint.proc_masks,
      .seccomp = &filter,
      .landlock_abi = blueprint.landlock_abi,
      .open_files = spec.from_dump.empty() ? kOpenFiles : RLIM_INFINITY,
      .core_bytes = kCoreBytes,
      .restore = !spec.from_dump.empty(),
      .restore_settings = kRestoreSettingsText,
      .time_offsets = texts.time_offsets.empty() ? nullptr : texts.time_offsets.c_str()};
  CellClone clone{plan, places, spec.uid_base, std::move(theirs)};
  TRY(BegunCell begun, clone.begin(ours.get(), kCreateTimeoutMs));
  Child& child = begun.child;
  TRY_DO(name_listener(begun.listener.get(), texts.guest_socket));
  begun.listener.reset();
  const auto start_time = outfit_child(blueprint, spec, child, ours.get());
  if (!start_time) {
    return fail(start_time.error());
  }
  Cell cell;
  if (plan.restore) {
    TRY(cell, restore_cell(ours.get(), spec, {child.pid(), blueprint.proc_masks}));
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
