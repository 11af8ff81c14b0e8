#include "runtime/namespaces/criu_restore.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/cell_report.h"
#include "runtime/namespaces/cell_step.h"
#include "runtime/namespaces/cell_visit.h"
#include "runtime/namespaces/dump_files.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/lost_connections.h"
#include "runtime/namespaces/process.h"
#include "runtime/namespaces/protobuf_wire.h"
#include "runtime/namespaces/shared_memory.h"

namespace atl::runtime::namespaces {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRestoreTime{60};
constexpr std::size_t kMaxMessageBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxReasonBytes = 200;
constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

// criu's protocol (its rpc.proto), as far as it is spoken here.
namespace rpc {
constexpr std::uint64_t kRestore = 2;
constexpr std::uint64_t kNotify = 6;
constexpr std::uint32_t kType = 1;
constexpr std::uint32_t kOptions = 2;
constexpr std::uint32_t kSuccess = 2;
constexpr std::uint32_t kNotifySuccess = 3;
constexpr std::uint32_t kRestoreAnswer = 4;
constexpr std::uint32_t kNotification = 5;
constexpr std::uint32_t kErrorMessage = 9;
namespace option {
constexpr std::uint32_t kImagesDirectoryFd = 1;
constexpr std::uint32_t kExternalUnixSockets = 4;
constexpr std::uint32_t kTcpEstablished = 5;
constexpr std::uint32_t kShellJob = 7;
constexpr std::uint32_t kFileLocks = 8;
constexpr std::uint32_t kLogLevel = 9;
constexpr std::uint32_t kLogFile = 10;
constexpr std::uint32_t kNotifyScripts = 12;
constexpr std::uint32_t kRestoreSibling = 26;
constexpr std::uint32_t kInheritFd = 27;
constexpr std::uint32_t kCgroupMode = 34;
constexpr std::uint32_t kConfigurationFile = 51;
constexpr std::uint32_t kNetworkLock = 64;
constexpr std::uint32_t kSkipFileModeCheck = 66;
constexpr std::uint32_t kUnprivileged = 67;
constexpr std::uint32_t kImagesDirectory = 68;
}  // namespace option
constexpr std::uint64_t kNetworkLockSkip = 3;
constexpr std::uint64_t kNoFd = static_cast<std::uint64_t>(-1);
}  // namespace rpc

struct Message {
  std::uint64_t type = 0;
  bool success = false;
  std::string script;
  int pid = 0;
  std::string error;
};

Result<Message> parse_message(std::string_view bytes) {
  TRY(const auto fields, parse_protobuf(bytes));
  Message message;
  for (const ProtobufField& field : fields) {
    if (field.number == rpc::kType) {
      message.type = field.value;
    } else if (field.number == rpc::kSuccess) {
      message.success = field.value != 0;
    } else if (field.number == rpc::kErrorMessage) {
      for (const char c : std::string_view{field.bytes}.substr(0, kMaxReasonBytes)) {
        message.error.push_back(c >= ' ' && c <= '~' ? c : ' ');
      }
    } else if (field.number == rpc::kRestoreAnswer || field.number == rpc::kNotification) {
      TRY(const auto inner, parse_protobuf(field.bytes));
      for (const ProtobufField& part : inner) {
        if (part.type == ProtobufField::Type::kNumber) {
          message.pid = static_cast<int>(part.value);
        } else {
          message.script = part.bytes;
        }
      }
    }
  }
  return message;
}

std::string restore_request(const DumpFacts& facts) {
  namespace option = rpc::option;
  ProtobufWriter listener;
  listener.text(1, concat("socket:[", facts.listener_inode, "]"))
      .number(2, static_cast<std::uint64_t>(kRestoreListenFd));
  ProtobufWriter options;
  options.number(option::kImagesDirectoryFd, rpc::kNoFd)
      .number(option::kExternalUnixSockets, 1)
      .number(option::kTcpEstablished, 1)
      .number(option::kShellJob, 1)
      .number(option::kFileLocks, 1)
      .number(option::kLogLevel, 1)
      .text(option::kLogFile, "log")
      .number(option::kNotifyScripts, 1)
      .number(option::kRestoreSibling, 1)
      .text(option::kInheritFd, listener.bytes())
      .number(option::kCgroupMode, 0)
      .text(option::kConfigurationFile, kRestoreSettings)
      .number(option::kNetworkLock, rpc::kNetworkLockSkip)
      .number(option::kSkipFileModeCheck, 1)
      .number(option::kUnprivileged, 1)
      .text(option::kImagesDirectory, kRestoreImages);
  ProtobufWriter request;
  request.number(rpc::kType, rpc::kRestore).text(rpc::kOptions, options.bytes());
  return request.bytes();
}

Result<> wait_until_readable(int channel, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{channel, POLLIN, 0};
    const int ready =
        ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) {
      return {};
    }
    if (ready == 0 || errno != EINTR) {
      return fail(Code::kDeadlineExceeded, "the memory did not come back in time");
    }
  }
}

// One datagram, or the reason why there is none.
Result<std::string> receive(int channel, Clock::time_point deadline) {
  TRY_DO(wait_until_readable(channel, deadline));
  std::string datagram(kMaxMessageBytes, '\0');
  const ssize_t got = ::recv(channel, datagram.data(), datagram.size(), 0);
  if (got <= 0) {
    return fail(Code::kUnavailable, "criu ended without a word");
  }
  datagram.resize(static_cast<std::size_t>(got));
  return datagram;
}

Result<> send(int channel, std::string_view datagram) {
  if (::send(channel, datagram.data(), datagram.size(), MSG_NOSIGNAL) < 0) {
    return fail_errno("talking to criu");
  }
  return {};
}

// The child of clone3 is ready to become criu, or says what went wrong.
Result<std::optional<NetworkSockets>> wait_for_ready(int channel, Clock::time_point deadline) {
  TRY_DO(wait_until_readable(channel, deadline));
  TRY(auto report, receive_report(channel));
  if (!report) {
    return fail(Code::kUnavailable, "the cell ended before its memory came back");
  }
  if (report->step.step != 0) {
    return fail(cell_step_error(report->step));
  }
  return std::move(report->network);
}

Result<> load_trees(const CellSpec& spec, int criu_pid) {
  for (const MemoryTree& tree : kMemoryTrees) {
    const Fd file{::open(concat(spec.from_dump, "/", tree.file).c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file && errno == ENOENT) {
      continue;
    }
    if (!file) {
      return fail_errno("opening a file of the dump");
    }
    const Fd criu{pidfd_open_call(criu_pid)};  // our child, so the pid is its
    TRY_DO(visit_cell({.pidfd = criu.get(), .kept_fd = file.get()},
                      [&] { return load_tree(tree.directory, file.get()); }));
  }
  return {};
}

int cover(const ProcMask& mask) {
  const std::string path = mask.path.substr(std::string_view{kStageRoot}.size());
  const char* source = mask.directory ? "/sys/fs" : "/dev/null";
  return ::mount(source, path.c_str(), nullptr, MS_BIND, nullptr) != 0 && errno != ENOENT ? errno
                                                                                          : 0;
}

// In the new pid namespace, whose /proc this is. The host's is still there, whole, which is what
// the kernel asks for before it allows another one.
int exchange_proc(std::span<const ProcMask> masks) {
  const int context = ::fsopen("proc", FSOPEN_CLOEXEC);
  if (context < 0 || ::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return errno;
  }
  const int mount =
      ::fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (mount < 0 || ::umount2("/proc", MNT_DETACH) != 0 ||
      ::umount2(kRestoreDirectory, MNT_DETACH) != 0 || ::rmdir(kRestoreDirectory) != 0 ||
      ::move_mount(mount, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return errno;
  }
  for (const ProcMask& mask : masks) {
    if (const int error = cover(mask); error != 0) {
      return error;
    }
  }
  constexpr const char* kSettings = "/proc/sys";
  if (::mount(kSettings, kSettings, nullptr, MS_BIND, nullptr) != 0 ||
      ::mount(nullptr, kSettings, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kPlain, nullptr) !=
          0) {
    return errno;
  }
  const char* boot_id = kBootIdFile + std::string_view{kStageRoot}.size();
  return ::mount(boot_id, "/proc/sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr) != 0 &&
                 errno != ENOENT
             ? errno
             : 0;
}

// What criu says about pids is believed only as far as it speaks of its own cell.
struct CellNamespaces {
  std::uint64_t user = 0;
  std::uint64_t mount = 0;

  bool operator==(const CellNamespaces&) const = default;
};

Result<CellNamespaces> namespaces_of(int pid) {
  struct stat user{};
  struct stat mount{};
  if (::stat(concat("/proc/", pid, "/ns/user").c_str(), &user) != 0 ||
      ::stat(concat("/proc/", pid, "/ns/mnt").c_str(), &mount) != 0) {
    return fail_errno("looking at a restored process");
  }
  return CellNamespaces{user.st_ino, mount.st_ino};
}

std::unexpected<Error> refused(std::string message) {
  return fail(Code::kFailedPrecondition, std::move(message), std::string{kDumpRefused});
}

// The dialogue until criu says how it ended.
class Dialogue {
 public:
  Dialogue(int channel, const CellSpec& spec, const Restoring& restoring, CellNamespaces own)
      : channel_(channel), spec_(spec), restoring_(restoring), own_(own) {}

  Fd take_init() { return std::move(init_); }

  // The host pid of the restored guest.
  Result<int> run(Clock::time_point deadline) {
    for (;;) {
      auto received = receive(channel_, deadline);
      if (!received && received.error().code == Code::kUnavailable) {
        return refused(received.error().message);  // it ended over these images
      }
      TRY(const std::string datagram, std::move(received));
      TRY(const Message message, parse_message(datagram));
      if (message.type != rpc::kNotify) {
        if (message.type == rpc::kRestore && message.success && resumed_ &&
            message.pid == init_pid_ && !is_dead(init_.get())) {
          return init_pid_;
        }
        // It tells its first complaint, which may be one about its own limits that stops nothing.
        const bool telling = !message.error.empty() && !message.error.contains("RLIMIT_NOFILE");
        return refused(telling ? message.error : "criu gave no reason");
      }
      TRY_DO(on_notification(message));
      ProtobufWriter answer;
      answer.number(rpc::kType, rpc::kNotify).number(rpc::kNotifySuccess, 1);
      TRY_DO(send(channel_, answer.bytes()));
    }
  }

 private:
  Result<> check_pid(int pid) const {
    TRY(const CellNamespaces found, namespaces_of(pid));
    return found == own_ ? Result<>{}
                         : fail(Code::kFailedPrecondition, "criu spoke of a foreign process");
  }

  Result<> on_notification(const Message& message) {
    if (message.script == "setup-namespaces") {
      if (init_ || message.pid <= 0) {
        return refused("criu named another first process");
      }
      init_pid_ = message.pid;
      init_ = Fd{pidfd_open_call(init_pid_)};  // from here on it is this one
      return check_pid(init_pid_);
    }
    if (message.script == "post-setup-namespaces") {
      if (!init_ || has_proc_) {
        return refused("criu did not do things in their order");
      }
      TRY_DO(visit_cell({.pidfd = init_.get(), .pid_namespace = true},
                        [this] { return exchange_proc(restoring_.proc_masks); }));
      has_proc_ = true;
    } else if (message.script == "pre-resume") {
      if (!has_proc_) {
        return refused("criu would resume without the cell's own /proc");
      }
      TRY_DO(abort_lost_connections(init_.get()));
      if (spec_.before_resume) {
        TRY_DO(spec_.before_resume());
      }
      resumed_ = true;
    }
    return {};
  }

  int channel_;
  const CellSpec& spec_;
  const Restoring& restoring_;
  CellNamespaces own_;
  int init_pid_ = 0;
  Fd init_;
  bool has_proc_ = false;
  bool resumed_ = false;
};

}  // namespace

Result<Cell> restore_cell(int channel, const CellSpec& spec, const Restoring& restoring) {
  const auto deadline = Clock::now() + kRestoreTime;
  TRY(const DumpFacts facts, read_dump_facts(spec.from_dump));
  TRY(auto network, wait_for_ready(channel, deadline));
  TRY(const CellNamespaces own, namespaces_of(restoring.criu_pid));
  TRY_DO(load_trees(spec, restoring.criu_pid));
  TRY_DO(send(channel, "g"));
  TRY_DO(send(channel, restore_request(facts)));
  Dialogue dialogue{channel, spec, restoring, own};
  TRY(const int pid, dialogue.run(deadline));
  TRY(const std::string stat, read_file(concat("/proc/", pid, "/stat")));
  TRY(const std::uint64_t start_time, parse_start_time(stat));
  Cell cell;
  cell.pidfd = dialogue.take_init();
  cell.record = {spec.id, pid, start_time};
  cell.network = std::move(network);
  return cell;
}

}  // namespace atl::runtime::namespaces
