#include "guest/warm_capture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/strings.h"
#include "guest/warm_machine.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxStatusFileBytes = std::size_t{64} * 1024;
constexpr std::uint64_t kScratchDistance = 4096;  // below the stack, where nothing lives

std::string proc(pid_t pid, std::string_view file) {
  return concat("/proc/", pid, "/", file);
}

Result<std::string> read_link(const std::string& path) {
  std::string target(4096, '\0');
  const ssize_t got = ::readlink(path.c_str(), target.data(), target.size());
  if (got < 0 || static_cast<std::size_t>(got) == target.size()) {
    return fail_errno(concat("reading ", path));
  }
  target.resize(static_cast<std::size_t>(got));
  return target;
}

// A link of /proc to something that is still there under its name.
Result<std::string> read_path_link(pid_t pid, std::string_view file) {
  TRY(auto target, read_link(proc(pid, file)));
  if (!target.starts_with('/') || target.ends_with(" (deleted)")) {
    return cannot_capture(concat("its ", file, " is gone from the filesystem"), "deleted_file");
  }
  return target;
}

using Status = std::map<std::string, std::string, std::less<>>;

Result<Status> read_status(std::string_view who) {
  TRY(const auto text, read_file(concat("/proc/", who, "/status"), kMaxStatusFileBytes));
  Status status;
  for (const auto line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon != std::string_view::npos) {
      status.emplace(line.substr(0, colon), trim(line.substr(colon + 1)));
    }
  }
  return status;
}

std::uint64_t hex(const Status& status, std::string_view key) {
  const auto found = status.find(key);
  return found == status.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 16);
}

std::string_view text(const Status& status, std::string_view key) {
  const auto found = status.find(key);
  return found == status.end() ? std::string_view{} : std::string_view{found->second};
}

// It is alone, and is what a process of its user is.
Result<> check_status(const Status& status) {
  TRY(const auto own, read_status("self"));
  if (text(status, "TracerPid") != "0") {
    return cannot_capture("somebody else traces it", "traced");
  }
  if (text(status, "Threads") != "1") {
    return cannot_capture("it has more than one thread", "threads");
  }
  for (const std::string_view key : {"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd",
                                     "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"}) {
    if (text(status, key) != text(own, key)) {
      return cannot_capture(concat("it has changed its rights (", key, ")"), "identity_changed");
    }
  }
  if (!text(status, "x86_Thread_features").empty()) {
    return cannot_capture("it has a shadow stack", "shadow_stack");
  }
  return {};
}

// A process that this one traces, from attach() until the end of either.
class Tracee {
 public:
  explicit Tracee(pid_t pid) : pid_(pid) {}
  Tracee(const Tracee&) = delete;
  Tracee& operator=(const Tracee&) = delete;
  ~Tracee() {
    // PTRACE_O_EXITKILL would do it too; this is sooner.
    ::kill(pid_, SIGKILL);
  }

  Result<> attach() {
    if (::ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_EXITKILL) != 0) {
      return cannot_capture(concat("it may not be traced: ", std::strerror(errno)),
                            "not_traceable");
    }
    TRY_DO(wait());  // it stands still already, and is told so as a stop
    return {};
  }

  struct Stop {
    int signal = 0;
    bool event = false;  // of tracing itself, not of the process
  };
  Result<Stop> wait() {
    int status = 0;
    while (::waitpid(pid_, &status, __WALL) < 0) {
      if (errno != EINTR) {
        return fail_errno("waiting for a process");
      }
    }
    if (!WIFSTOPPED(status)) {
      return cannot_capture("it ended", "process_ended");
    }
    return Stop{WSTOPSIG(status), status >> 16 != 0};
  }

  // Makes it call the kernel; its memory is of no further use.
  Result<std::uint64_t> call(const KernelCall& call) {
    TRY_DO(begin_call(pid_, call));
    TRY(Stop stop, wait());
    for (int others = 0; (stop.event || stop.signal != SIGTRAP) && others < 8; ++others) {
      if (::ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) {
        return fail_errno("continuing a process");
      }
      TRY(stop, wait());
    }
    if (stop.event || stop.signal != SIGTRAP) {
      return cannot_capture(concat("signal ", stop.signal, " disturbs it"), "signalled");
    }
    TRY(const std::int64_t result, call_result(pid_));
    if (result < 0 && result > -4096) {
      return fail(errno_error(concat("system call ", call.number, " of a process"),
                              static_cast<int>(-result)));
    }
    return static_cast<std::uint64_t>(result);
  }

 private:
  const pid_t pid_;
};

Result<> read_thread(pid_t pid, WarmImage& image) {
  TRY_DO(read_registers(pid, image));
  if (::ptrace(PTRACE_GETSIGMASK, pid, sizeof image.signal_mask, &image.signal_mask) < 0) {
    return fail_errno("reading the signal mask of a process");
  }
  std::size_t robust_bytes = 0;
  void* robust_list = nullptr;
  if (::syscall(SYS_get_robust_list, pid, &robust_list, &robust_bytes) == 0) {
    image.robust_list = reinterpret_cast<std::uint64_t>(robust_list);
    image.robust_list_bytes = robust_bytes;
  }
  struct {
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint32_t signature;
    std::uint32_t flags;
    std::uint32_t padding;
  } sequence{};
  constexpr auto kGetSequences = static_cast<__ptrace_request>(0x420f);
  if (::ptrace(kGetSequences, pid, sizeof sequence, &sequence) > 0) {
    image.sequence_address = sequence.address;
    image.sequence_bytes = sequence.bytes;
    image.sequence_signature = sequence.signature;
  }
  return {};
}

Result<> read_limits(pid_t pid, WarmImage& image) {
  for (std::size_t i = 0; i < kResourceLimitCount; ++i) {
    rlimit limit{};
    if (::prlimit(pid, static_cast<__rlimit_resource>(i), nullptr, &limit) != 0) {
      return fail_errno("reading the limits of a process");
    }
    image.limits[i] = {limit.rlim_cur, limit.rlim_max};
  }
  return {};
}

// Numbers of /proc/pid/stat, as in proc(5) (from 1).
Result<> read_memory_fields(pid_t pid, WarmImage& image) {
  TRY(const auto stat, read_file(proc(pid, "stat"), kMaxStatusFileBytes));
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) {
    return fail(Code::kInternal, "/proc/pid/stat is not what it should be");
  }
  const auto fields = split(trim(std::string_view{stat}.substr(name_end + 1)), ' ');
  constexpr std::size_t kFirst = 3;
  constexpr std::array<std::size_t, kMemoryFieldCount> kNumbers{26, 27, 45, 46, 47, 0,
                                                                28, 48, 49, 50, 51};
  for (std::size_t i = 0; i < kMemoryFieldCount; ++i) {
    if (kNumbers[i] == 0) {
      continue;  // brk: asked for later
    }
    if (kNumbers[i] - kFirst >= fields.size()) {
      return fail(Code::kInternal, "/proc/pid/stat is too short");
    }
    image.memory_fields[i] =
        std::strtoull(std::string{fields[kNumbers[i] - kFirst]}.c_str(), nullptr, 10);
  }
  TRY(image.auxiliary_vector, read_file(proc(pid, "auxv"), kMaxAuxiliaryBytes));
  return {};
}

// What only the process itself can ask for.
Result<> ask_process(pid_t pid, Tracee& tracee, const Status& status, WarmImage& image) {
  constexpr std::size_t kBrkField = 5;
  TRY_DO(plant_call(pid));
  const Fd memory{::open(proc(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC)};
  const std::uint64_t scratch = image.memory_fields[6] - kScratchDistance;
  const auto look = [&](void* into, std::size_t bytes) -> Result<> {
    if (::pread(memory.get(), into, bytes, static_cast<off_t>(scratch)) !=
        static_cast<ssize_t>(bytes)) {
      return fail_errno("reading from a process");
    }
    return {};
  };
  TRY(image.memory_fields[kBrkField], tracee.call({SYS_brk, {0}}));
  TRY_DO(tracee.call({SYS_prctl, {PR_GET_TID_ADDRESS, scratch}}));
  TRY_DO(look(&image.thread_id_address, sizeof image.thread_id_address));
  TRY_DO(tracee.call({SYS_sigaltstack, {0, scratch}}));
  TRY_DO(look(image.signal_stack.data(), sizeof image.signal_stack));
  const std::uint64_t ignored = hex(status, "SigIgn");
  const std::uint64_t caught = hex(status, "SigCgt");
  for (std::uint32_t signal = 1; signal <= 64; ++signal) {
    const std::uint64_t bit = 1ULL << (signal - 1);
    SignalAction action{.signal = signal};
    if ((caught & bit) != 0) {
      TRY_DO(tracee.call({SYS_rt_sigaction, {signal, 0, scratch, sizeof(std::uint64_t)}}));
      TRY_DO(look(action.action.data(), sizeof action.action));
      image.signal_actions.push_back(action);
    } else if ((ignored & bit) != 0) {
      action.action[0] = reinterpret_cast<std::uint64_t>(SIG_IGN);
      image.signal_actions.push_back(action);
    }
  }
  return {};
}

}  // namespace

std::unexpected<Error> cannot_capture(std::string why, std::string reason) {
  return fail(Code::kFailedPrecondition, std::move(why), std::move(reason));
}

Result<Captured> capture_process(const CaptureSource& source) {
  const pid_t pid = source.pid;
  if (!kWarmForks) {
    return fail(Code::kUnimplemented, "this machine cannot clone processes", "unsupported_machine");
  }
  TRY(const auto status, read_status(std::to_string(pid)));
  if (!text(status, "State").starts_with('T')) {
    return cannot_capture("it does not stand still", "not_stopped");  // so it is not a copy either
  }
  Tracee tracee{pid};
  TRY_DO(check_status(status));
  TRY_DO(tracee.attach());
  Captured captured;
  WarmImage& image = captured.image;
  image.machine = machine_name();
  TRY_DO(read_thread(pid, image));
  TRY_DO(read_limits(pid, image));
  TRY_DO(read_memory_fields(pid, image));
  TRY(image.program, read_path_link(pid, "exe"));
  TRY(image.directory, read_path_link(pid, "cwd"));
  TRY(const auto root, read_link(proc(pid, "root")));
  if (root != "/") {
    return cannot_capture("it has changed its root directory", "identity_changed");
  }
  image.name = text(status, "Name");
  image.file_mask = static_cast<std::uint32_t>(
      std::strtoul(std::string{text(status, "Umask")}.c_str(), nullptr, 8));
  TRY(image.descriptors, capture_descriptors(source));
  TRY(captured.memory, capture_memory(source, image));
  TRY_DO(ask_process(pid, tracee, status, image));
  return captured;
}

}  // namespace atl::guest
