// The child's half of create, as a table of steps that run in order.
//
// It begins with the host root's id for files (see owner_identity.h) but capabilities only in its
// new user namespace, does what needs host paths, waits until the parent has mapped its ids and
// sent the mounts, then becomes the namespace's root and gives up, step by step, everything it
// used. Seccomp and Landlock are loaded while CAP_SYS_ADMIN (of its own namespace) is still held:
// that is what allows no_new_privs to stay off, so that sudo works inside.
//
// Only raw, async-signal-safe system calls here; see cell_plan.h.
#include "runtime/namespaces/cell_init.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/signals.h"
#include "runtime/namespaces/capability_set.h"
#include "runtime/namespaces/cell_identity.h"
#include "runtime/namespaces/cell_network.h"
#include "runtime/namespaces/cell_report.h"
#include "runtime/namespaces/cell_restore.h"
#include "runtime/namespaces/cell_root.h"
#include "runtime/namespaces/cell_step.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/landlock.h"
#include "runtime/namespaces/mount_transfer.h"
#include "runtime/namespaces/own_descriptors.h"
#include "runtime/namespaces/volume_mounts.h"

namespace atl::runtime::namespaces {
namespace {

int result(long returned) {
  return returned < 0 ? errno : 0;
}

// Joining by writing "0" into "tasks" is deliberate: a thread that moves itself needs no
// system-wide lock against forks, which makes the difference between microseconds and a grace
// period of milliseconds.
int join_cgroups(CellState& state) {
  for (const int fd : state.plan.cgroup_fds) {
    if (::write(fd, "0", 1) != 1) {
      return errno;
    }
    ::close(fd);
  }
  return 0;
}

int make_mounts_private(CellState&) {
  return result(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
}

// Still with the host root's id for files, so the data directory may be closed to everybody else.
int enter_stage_directory(CellState& state) {
  return result(::chdir(state.plan.stage_dir));
}

int raise_loopback(CellState& state) {
  if (state.plan.resolver_file != nullptr) {
    return 0;  // the host's
  }
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return errno;
  }
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const int error = result(::ioctl(fd, SIOCSIFFLAGS, &request));
  ::close(fd);
  return error;
}

// Before anything of the cell runs, so that nothing of it can have taken their ports. High numbers:
// what is below belongs to the guest.
int open_network(CellState& state) {
  if (state.plan.network == nullptr) {
    return raise_loopback(state);
  }
  int fds[kNetworkSocketCount] = {-1, -1, -1};
  int error = build_network(*state.plan.network);
  if (error == 0) {
    error = open_network_sockets(state.plan.network->ipv6, fds);
  }
  for (std::size_t i = 0; error == 0 && i < kNetworkSocketCount; ++i) {
    state.network_fds[i] = ::fcntl(fds[i], F_DUPFD_CLOEXEC, kFirstKeptFd);
    error = state.network_fds[i] < 0 ? errno : 0;
    ::close(fds[i]);
  }
  return error;
}

int set_hostname(CellState& state) {
  return result(::sethostname(state.plan.hostname, std::strlen(state.plan.hostname)));
}

// A kernel without keyrings has no host keys to hide.
int join_new_keyring(CellState&) {
  const int error = result(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr));
  return error == ENOSYS ? 0 : error;
}

int set_resource_limits(CellState& state) {
  // Where core dumps are piped to a program, which runs as the host's root and reads what the cell
  // feeds it, the kernel pipes even with a limit of zero: only a limit of exactly one refuses. To a
  // file, less than a page refuses too. Where the node itself has zero it stays at that.
  rlimit core{};
  if (::getrlimit(RLIMIT_CORE, &core) != 0) {
    return errno;
  }
  core.rlim_max = core.rlim_max < state.plan.core_bytes ? core.rlim_max : state.plan.core_bytes;
  core.rlim_cur = core.rlim_max;
  if (::setrlimit(RLIMIT_CORE, &core) != 0) {
    return errno;
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return errno;
  }
  if (files.rlim_max > state.plan.open_files) {
    files.rlim_max = state.plan.open_files;
  }
  files.rlim_cur = files.rlim_max;
  return result(::setrlimit(RLIMIT_NOFILE, &files));
}

// When the node is gone this fails, and with nobody to report to the child just ends.
int wait_for_mounts(CellState& state) {
  const std::size_t count = state.plan.layer_count + kMountsBesideLayers +
                            state.plan.mount_targets.size() + state.plan.view_count +
                            (state.plan.restore ? kMountsOfRestore : 0);
  return receive_mounts(state.channel_fd, state.mount_fds, count);
}

// Raw calls: the C library's setresuid would signal threads that do not exist in this process.
int become_namespace_root(CellState&) {
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, 0, 0, 0) != 0) {
    return errno;
  }
  return result(::syscall(SYS_setresuid, 0, 0, 0));
}

int enter_cgroup_namespace(CellState&) {
  return result(::unshare(CLONE_NEWCGROUP));
}

// Of a cell that makes a layer for others: its resolver is covered, not written. Null: none.
const char* covering_resolver(const CellPlan& plan) {
  if (plan.resolver_file != nullptr) {
    return plan.resolver_file;
  }
  const bool passing = plan.identity == CellPlan::Identity::kFillIn && plan.network != nullptr;
  return passing ? plan.network->resolver_file.c_str() : nullptr;
}

// A mount, so that the layer made here does not keep the resolver. Its file has no name: it lives
// as long as the mount.
int cover_resolver(const char* content) {
  constexpr const char* kSource = "/dev/shm/resolv.conf";
  constexpr const char* kTarget = "/etc/resolv.conf";
  int error = write_missing_file(kSource, content);
  if (error != 0) {
    return error;
  }
  if (::access(kTarget, F_OK) != 0) {
    ::unlink(kTarget);  // a link to nowhere
    error = write_missing_file(kTarget, "");
  }
  if (error == 0 && ::mount(kSource, kTarget, nullptr, MS_BIND, nullptr) != 0 && errno != ENOENT) {
    error = errno;
  }
  ::unlink(kSource);
  return error;
}

// After the change of root, so no link in the image can lead out of it.
int write_etc_files(CellState& state) {
  int error = 0;
  if (state.plan.identity == CellPlan::Identity::kRenew) {
    error = write_identity(state.plan);
  } else if (state.plan.identity == CellPlan::Identity::kFillIn) {
    error = write_missing_file("/etc/hostname", state.plan.hostname_file);
    error = error == 0 ? write_missing_file("/etc/hosts", state.plan.hosts_file) : error;
  }
  const char* const resolver = covering_resolver(state.plan);
  return error == 0 && resolver != nullptr ? cover_resolver(resolver) : error;
}

int arrange_guest_descriptors(CellState& state) {
  if (const int error = point_streams_at_null(); error != 0) {
    return error;
  }
  if (::dup2(state.listen_fd, kGuestListenFd) < 0) {
    return errno;
  }
  return result(::syscall(SYS_close_range, kGuestListenFd + 1, ~0U, CLOSE_RANGE_CLOEXEC));
}

// Here, where the name still means the node's mount: the root may yet become a volume, whose
// content is somebody else's.
int open_guest(CellState& state) {
  state.guest_fd = ::open(kGuestPath, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  return state.guest_fd < 0 ? errno : 0;
}

int enter_landlock(CellState& state) {
  return enter_landlock_domain({.abi = state.plan.landlock_abi,
                                .scope_abstract_sockets = state.plan.resolver_file != nullptr});
}

int drop_bounding(CellState&) {
  return drop_bounding_set();
}

int load_seccomp(CellState& state) {
  return result(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, state.plan.seccomp));
}

int drop_capabilities(CellState&) {
  return drop_to_kept_capabilities();
}

int start_guest(CellState& state) {
  if (const int error = send_ready(state.channel_fd, state.network_fds); error != 0) {
    return error;
  }
  // The guest starts as a fresh program would: what the node ignores or blocks is not its business.
  reset_signals();
  char name[] = "atoll-guest";
  char only_files[] = "only-files";  // see guest/main.cpp
  char* const arguments[] = {name, state.plan.mount_is_root ? only_files : nullptr, nullptr};
  char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  char home[] = "HOME=/root";
  char lang[] = "LANG=C.UTF-8";
  char* const environment[] = {path, home, lang, nullptr};
  ::syscall(SYS_execveat, state.guest_fd, "", arguments, environment, AT_EMPTY_PATH);
  return errno;
}

struct StepEntry {
  CellStep step;
  int (*run)(CellState&);  // 0 or an errno
};

constexpr StepEntry kSteps[] = {
    {CellStep::kDescriptors, close_other_descriptors},
    {CellStep::kCgroups, join_cgroups},
    {CellStep::kPropagation, make_mounts_private},
    {CellStep::kStageDirectory, enter_stage_directory},
    {CellStep::kNetwork, open_network},
    {CellStep::kHostname, set_hostname},
    {CellStep::kKeyring, join_new_keyring},
    {CellStep::kResourceLimits, set_resource_limits},
    {CellStep::kWaitForMounts, wait_for_mounts},
    {CellStep::kIdentity, become_namespace_root},
    {CellStep::kCgroupNamespace, enter_cgroup_namespace},
    {CellStep::kLayers, attach_layers},
    {CellStep::kOverlay, mount_overlay},
    {CellStep::kWritableRoot, check_root_is_writable},
    {CellStep::kDevices, build_dev},
    {CellStep::kSys, build_sys},
    {CellStep::kDevices, build_terminals},
    {CellStep::kProc, build_proc},
    {CellStep::kTmp, build_tmp},
    {CellStep::kViews, show_views},
    {CellStep::kPivotRoot, change_root},
    {CellStep::kEtcFiles, write_etc_files},
    {CellStep::kVolumes, mount_volumes},
    {CellStep::kGuestDescriptors, arrange_guest_descriptors},
    {CellStep::kExec, open_guest},
    {CellStep::kVolumeRoot, enter_volume},
    {CellStep::kLandlock, enter_landlock},
    {CellStep::kBoundingSet, drop_bounding},
    {CellStep::kSeccomp, load_seccomp},
    {CellStep::kCapabilities, drop_capabilities},
    {CellStep::kExec, start_guest},
};

constexpr StepEntry kRestoreSteps[] = {
    {CellStep::kDescriptors, close_other_descriptors},
    {CellStep::kCgroups, join_cgroups},
    {CellStep::kPropagation, make_mounts_private},
    {CellStep::kStageDirectory, enter_stage_directory},
    {CellStep::kNetwork, open_network},
    {CellStep::kHostname, set_hostname},
    {CellStep::kKeyring, join_new_keyring},
    {CellStep::kResourceLimits, set_resource_limits},
    {CellStep::kWaitForMounts, wait_for_mounts},
    {CellStep::kIdentity, become_namespace_root},
    {CellStep::kCgroupNamespace, enter_cgroup_namespace},
    {CellStep::kLayers, attach_layers},
    {CellStep::kOverlay, mount_overlay},
    {CellStep::kWritableRoot, check_root_is_writable},
    {CellStep::kDevices, build_dev},
    {CellStep::kSys, build_sys},
    {CellStep::kDevices, build_terminals},
    {CellStep::kRestore, build_restore},
    {CellStep::kTmp, build_tmp},
    {CellStep::kPivotRoot, change_root},
    {CellStep::kEtcFiles, write_etc_files},
    {CellStep::kVolumes, mount_volumes},
    {CellStep::kRestore, write_restore_settings},
    {CellStep::kTime, enter_time_namespace},
    {CellStep::kGuestDescriptors, arrange_restore_descriptors},
    {CellStep::kRestore, wait_for_go},
    {CellStep::kLandlock, enter_landlock},
    {CellStep::kExec, start_criu},
};

void run_steps(CellState& state, std::span<const StepEntry> steps) {
  for (const StepEntry& entry : steps) {
    const int error = entry.run(state);
    if (error != 0) {
      const StepReport report{static_cast<std::uint32_t>(entry.step), error};
      ::send(state.channel_fd, &report, sizeof report, MSG_NOSIGNAL);
      ::_exit(70);
    }
  }
}

}  // namespace

void run_cell_init(const CellPlan& plan) {
  CellState state{.plan = plan, .channel_fd = plan.channel_fd};
  ::setsid();
  ::umask(022);  // the node's is stricter; the mount points made here are for everybody in the cell
  run_steps(state, plan.restore ? std::span<const StepEntry>{kRestoreSteps} : kSteps);
  ::_exit(71);  // not reached: the last step execs or fails
}

}  // namespace atl::runtime::namespaces
