#include "runtime/namespaces/overlay_trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/id_map.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/layer_mount.h"
#include "runtime/namespaces/mount_transfer.h"
#include "runtime/namespaces/process.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::uint32_t kTrialIdBase = 0x7FFF0000;
constexpr int kTrialTimeoutMs = 10'000;
constexpr const char* kDirectories[] = {"l0",   "u",          "root",     "lower",
                                        "data", "data/upper", "data/work"};

// A directory that goes with its object.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& parent) : path_(parent + "/atoll-trial-XXXXXX") {
    // Search permission, as in the stage directory: the child is no longer real root in it.
    made_ = ::mkdtemp(path_.data()) != nullptr && ::chmod(path_.c_str(), 0711) == 0;
    for (const char* name : kDirectories) {
      made_ = made_ && ::mkdir(at(name).c_str(), 0755) == 0;
    }
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  bool made() const { return made_; }
  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const { return concat(path_, "/", name); }

 private:
  std::string path_;
  bool made_ = false;
};

// The child: waits for its ids and the two mounts, overlays them, exits with the errno.
[[noreturn]] void run_trial_child(const char* directory, int channel) {
  int fds[2] = {-1, -1};
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::chdir(directory) != 0) {
    ::_exit(errno);
  }
  const int received = receive_mounts(channel, fds, 2);
  if (received != 0) {
    ::_exit(received);
  }
  if (::syscall(SYS_setresgid, 0, 0, 0) != 0 || ::syscall(SYS_setresuid, 0, 0, 0) != 0 ||
      ::move_mount(fds[0], "", AT_FDCWD, "l0", MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
      ::move_mount(fds[1], "", AT_FDCWD, "u", MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
      ::mount("overlay", "root", "overlay", 0,
              "lowerdir=l0,upperdir=u/upper,workdir=u/work,userxattr,index=off") != 0) {
    ::_exit(errno);
  }
  ::_exit(0);
}

Result<> give_mounts(const TemporaryDirectory& directory, int pid, int channel) {
  const Fd proc{::open(concat("/proc/", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  TRY_DO(write_id_maps(proc.get(), kTrialIdBase));
  const Fd user_namespace{::openat(proc.get(), "ns/user", O_RDONLY | O_CLOEXEC)};
  std::vector<Fd> mounts;
  TRY(Fd lower, make_layer_mount(directory.at("lower"), {user_namespace.get(), true}));
  mounts.push_back(std::move(lower));
  TRY(Fd upper, make_layer_mount(directory.at("data"), {user_namespace.get(), false}));
  mounts.push_back(std::move(upper));
  return send_mounts(channel, mounts);
}

// The child's exit status: 0 or the errno of the step that failed.
Result<> wait_for_trial(int pidfd) {
  pollfd waiting{pidfd, POLLIN, 0};
  if (::poll(&waiting, 1, kTrialTimeoutMs) <= 0) {
    TRY_DO(kill_process(pidfd));
  }
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | __WALL) != 0) {
    return fail_errno("waiting for the trial");
  }
  if (info.si_code != CLD_EXITED || info.si_status != 0) {
    return fail(errno_error("mounting an overlay in a user namespace",
                            info.si_code == CLD_EXITED ? info.si_status : ETIMEDOUT));
  }
  return {};
}

}  // namespace

Result<> try_overlay(const std::string& directory) {
  const TemporaryDirectory place{directory};
  int pair[2] = {-1, -1};
  if (!place.made() || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fail_errno(concat("preparing a trial in ", directory));
  }
  Fd ours{pair[0]};
  Fd theirs{pair[1]};
  int pidfd_number = -1;
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd_number);
  const long pid = clone3_call(&arguments);
  if (pid == 0) {
    ::close(ours.get());
    run_trial_child(place.path().c_str(), theirs.get());
  }
  if (pid < 0) {
    return fail_errno("clone3 with a user namespace");
  }
  const Fd pidfd{pidfd_number};
  theirs.reset();
  const auto given = give_mounts(place, static_cast<int>(pid), ours.get());
  ours.reset();  // a child that got nothing sees the end and exits
  const auto outcome = wait_for_trial(pidfd.get());
  return given ? outcome : given;
}

}  // namespace atl::runtime::namespaces
