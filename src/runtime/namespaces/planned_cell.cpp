#include "runtime/namespaces/planned_cell.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>

#include "base/random.h"
#include "base/strings.h"
#include "runtime/namespaces/cell_identity.h"
#include "runtime/namespaces/dump_files.h"

namespace atl::runtime::namespaces {
namespace {

constexpr const char* kHostResolver = "/etc/resolv.conf";
constexpr std::size_t kMaxResolverBytes = std::size_t{64} * 1024;
constexpr std::uint64_t kShmBytesWithoutLimit = 1ULL << 30;
// What criu is told by file: its protocol has no words for a directory by name.
constexpr const char* kRestoreSettingsText = "work-dir /dev/.restore/work\n";

Result<PlanTexts> make_texts(const CellSpec& spec) {
  PlanTexts texts;
  texts.overlay_options = "lowerdir=";
  for (std::size_t i = 0; i < spec.lower_dirs.size(); ++i) {
    texts.overlay_options += concat(i == 0 ? "" : ":", LayerName{i}.text);
  }
  // Without an index: a host may have it on by default, and then a second overlay on an upper is
  // refused while anybody's descriptor holds on to the first one.
  texts.overlay_options += concat(",upperdir=", kStageUpper, "/upper,workdir=", kStageUpper,
                                  "/work,userxattr,index=off");
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

}  // namespace

std::uint64_t shared_memory_bytes(const CellSpec& spec) {
  const std::uint64_t memory = spec.limits.memory_bytes;
  return memory == 0 ? kShmBytesWithoutLimit : memory / 2;
}

Result<std::shared_ptr<const PlannedCell>> plan_cell(std::shared_ptr<const CellBlueprint> blueprint,
                                                     CgroupPlaces places, CellSpec wanted,
                                                     int channel_fd) {
  auto cell = std::make_shared<PlannedCell>();
  cell->blueprint = std::move(blueprint);
  cell->spec = std::move(wanted);
  cell->places = std::move(places);
  const CellBlueprint& shared = *cell->blueprint;
  const CellSpec& spec = cell->spec;
  TRY(cell->texts, make_texts(spec));
  const PlanTexts& texts = cell->texts;
  cell->filter = {static_cast<unsigned short>(shared.seccomp_filter.size()),
                  const_cast<sock_filter*>(shared.seccomp_filter.data())};
  cell->cgroup_fds.reserve(cell->places.tasks.size());
  for (const Fd& tasks : cell->places.tasks) {
    cell->cgroup_fds.push_back(tasks.get());
  }
  for (const VolumeMount& volume : spec.mounts) {
    cell->mount_targets.push_back(volume.target.c_str());
  }
  cell->plan = CellPlan{
      .channel_fd = channel_fd,
      .cgroup_fds = cell->cgroup_fds,
      .stage_dir = shared.stage_dir.c_str(),
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
      .network = spec.egress && !spec.host_network && shared.network ? &*shared.network : nullptr,
      .layer_count = spec.lower_dirs.size(),
      .mount_targets = cell->mount_targets,
      .mount_is_root = spec.mount_is_root,
      .view_count = spec.view_dirs.size(),
      .proc_masks = shared.proc_masks,
      .seccomp = &cell->filter,
      .landlock_abi = shared.landlock_abi,
      .open_files = spec.from_dump.empty() ? kOpenFiles : RLIM_INFINITY,
      .core_bytes = kCoreBytes,
      .restore = !spec.from_dump.empty(),
      .restore_settings = kRestoreSettingsText,
      .time_offsets = texts.time_offsets.empty() ? nullptr : texts.time_offsets.c_str()};
  return cell;
}

}  // namespace atl::runtime::namespaces
